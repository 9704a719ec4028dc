// Seals callbacks with @wecom/crypto: a JSON line in, a JSON line out.
// In:  { token, aes_key, receive_id, timestamp, nonce, plaintext, kind: "post" | "verify", to_user_name, agent_id }
// Out: { query, body }; the body is null for a verification.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

// The library is installed elsewhere, so that the checkout stays clean.
const require = createRequire(`${process.env.PAIDAN_PEERS}/`);
const { encrypt, getSignature } = require('@wecom/crypto');

function seal(order) {
  const { token, timestamp, nonce, kind } = order;
  const sealed = encrypt(order.aes_key, order.plaintext, order.receive_id);
  const query = new URLSearchParams({
    msg_signature: getSignature(token, timestamp, nonce, sealed),
    timestamp,
    nonce,
  });
  if (kind === 'verify') {
    query.set('echostr', sealed);
    return { query: query.toString(), body: null };
  }
  const body = `<xml><ToUserName><![CDATA[${order.to_user_name}]]></ToUserName>`
    + `<AgentID><![CDATA[${order.agent_id}]]></AgentID><Encrypt><![CDATA[${sealed}]]></Encrypt></xml>`;
  return { query: query.toString(), body };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(seal(JSON.parse(line)))}\n`);
}
