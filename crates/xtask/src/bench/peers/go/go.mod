module paidan-bench-peer

go 1.19

require (
	github.com/gomodule/redigo v1.9.2
	github.com/silenceper/wechat/v2 v2.1.6
)
