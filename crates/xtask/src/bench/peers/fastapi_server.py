"""The same with FastAPI, wechatpy and redis-py: uvicorn fastapi_server:app."""

import os

import redis.asyncio
from fastapi import FastAPI, Request, Response
from wechatpy.enterprise.crypto import WeChatCrypto
from wechatpy.exceptions import InvalidSignatureException

app = FastAPI()
crypto = WeChatCrypto(os.environ["TOKEN"], os.environ["AES_KEY"], os.environ["CORP"])
store = redis.asyncio.Redis.from_url(os.environ["REDIS"])


@app.post("/callback/{endpoint}")
async def callback(endpoint: str, msg_signature: str, timestamp: str, nonce: str, request: Request):
    body = await request.body()
    try:
        message = crypto.decrypt_message(body.decode(), msg_signature, timestamp, nonce)
    except InvalidSignatureException:
        return Response(status_code=403)
    await store.xadd("peer:inbox", {"x": message})
    return Response(status_code=200)
