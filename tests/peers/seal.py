"""Seals callbacks with wechatpy: a JSON line in, a JSON line out.

In:  { token, aes_key, receive_id, timestamp, nonce, plaintext, kind: "post" | "verify", to_user_name, agent_id }
Out: { query, body }; the body is null for a verification.
"""

import json
import sys
from urllib.parse import urlencode

import xmltodict
from wechatpy.enterprise.crypto import WeChatCrypto


def seal(order):
    crypto = WeChatCrypto(order["token"], order["aes_key"], order["receive_id"])
    sealed = crypto.encrypt_message(order["plaintext"], order["nonce"], order["timestamp"])
    sealed = xmltodict.parse(sealed)["xml"]
    query = {
        "msg_signature": sealed["MsgSignature"],
        "timestamp": sealed["TimeStamp"],
        "nonce": sealed["Nonce"],
    }
    if order["kind"] == "verify":
        return {"query": urlencode({**query, "echostr": sealed["Encrypt"]}), "body": None}
    # Another order than the other peer has, and white space between the elements.
    body = (
        f"<xml>\n<Encrypt><![CDATA[{sealed['Encrypt']}]]></Encrypt>\n"
        f"<AgentID><![CDATA[{order['agent_id']}]]></AgentID>\n"
        f"<ToUserName><![CDATA[{order['to_user_name']}]]></ToUserName>\n</xml>"
    )
    return {"query": urlencode(query), "body": body}


for line in sys.stdin:
    print(json.dumps(seal(json.loads(line))), flush=True)
