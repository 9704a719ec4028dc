// A server of callbacks as one writes it with node's own http, @wecom/crypto and ioredis: verify, decrypt, store, 200.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.PEERS}/`);
const { decrypt, getSignature } = require('@wecom/crypto');
const { Redis } = require('ioredis');

const { TOKEN, AES_KEY, CORP, LISTEN, REDIS } = process.env;
const [host, port] = LISTEN.split(':');
const redis = new Redis(REDIS);

const server = createServer((request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', async () => {
    const query = new URL(request.url, 'http://x').searchParams;
    const body = Buffer.concat(parts).toString();
    const encrypt = /<Encrypt><!\[CDATA\[(.*?)\]\]><\/Encrypt>/.exec(body)?.[1] ?? '';
    const signature = getSignature(TOKEN, query.get('timestamp'), query.get('nonce'), encrypt);
    let status = 403;
    if (signature === query.get('msg_signature')) {
      const { message, id } = decrypt(AES_KEY, encrypt);
      if (id === CORP) {
        await redis.xadd('peer:inbox', '*', 'x', message);
        status = 200;
      }
    }
    response.writeHead(status, { 'Content-Length': 0 }).end();
  });
});
redis.once('ready', () => server.listen(Number(port), host));
