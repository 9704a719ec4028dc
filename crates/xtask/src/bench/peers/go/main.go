// The same with Go's net/http, silenceper/wechat and redigo.
package main

import (
	"encoding/xml"
	"io"
	"net/http"
	"os"

	"github.com/gomodule/redigo/redis"
	"github.com/silenceper/wechat/v2/util"
)

type envelope struct {
	Encrypt string `xml:"Encrypt"`
}

func main() {
	token, key, corp := os.Getenv("TOKEN"), os.Getenv("AES_KEY"), os.Getenv("CORP")
	pool := &redis.Pool{MaxIdle: 64, Dial: func() (redis.Conn, error) { return redis.DialURL(os.Getenv("REDIS")) }}
	http.HandleFunc("/callback/", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		body, err := io.ReadAll(r.Body)
		var sealed envelope
		if err != nil || xml.Unmarshal(body, &sealed) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		signature := util.Signature(token, query.Get("timestamp"), query.Get("nonce"), sealed.Encrypt)
		_, message, err := util.DecryptMsg(corp, sealed.Encrypt, key)
		if signature != query.Get("msg_signature") || err != nil {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		connection := pool.Get()
		defer connection.Close()
		if _, err := connection.Do("XADD", "peer:inbox", "*", "x", message); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	if err := http.ListenAndServe(os.Getenv("LISTEN"), nil); err != nil {
		panic(err)
	}
}
