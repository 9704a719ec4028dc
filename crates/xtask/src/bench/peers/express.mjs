// The same with express and its usual middleware for XML.
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.PEERS}/`);
const { decrypt, getSignature } = require('@wecom/crypto');
const { Redis } = require('ioredis');
const express = require('express');
const xml = require('express-xml-bodyparser');

const { TOKEN, AES_KEY, CORP, LISTEN, REDIS } = process.env;
const [host, port] = LISTEN.split(':');
const redis = new Redis(REDIS);

const app = express();
app.use(xml({ explicitArray: false, normalizeTags: false }));
app.post('/callback/:endpoint', async (request, response) => {
  const { msg_signature, timestamp, nonce } = request.query;
  const encrypt = request.body.xml.Encrypt;
  if (getSignature(TOKEN, timestamp, nonce, encrypt) !== msg_signature) return response.status(403).end();
  const { message, id } = decrypt(AES_KEY, encrypt);
  if (id !== CORP) return response.status(403).end();
  await redis.xadd('peer:inbox', '*', 'x', message);
  response.status(200).set('Content-Length', '0').end();
});
redis.once('ready', () => app.listen(Number(port), host));
