#!lua
return redis.error_reply("NOT_READY this script is not written yet")
