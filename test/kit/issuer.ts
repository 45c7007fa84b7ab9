import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';

/** A real OpenID provider on loopback which hands out JWT access tokens. */
export interface Issuer {
  url: string;
  /** A token by the client credentials grant; `sub` is the client's id. */
  token(scope: string, client?: string): Promise<string>;
  close(): void;
}

/** `audience` is the resource that tokens are for; `lifetime` of a token in seconds. */
export async function openIssuer(audience: string, scopes: readonly string[], lifetime = 600): Promise<Issuer> {
  const server: Server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const key = { ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig', kid: 'test' };
  const client = (client_id: string) => ({
    client_id,
    client_secret: 'secret',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    id_token_signed_response_alg: 'ES256',
  });
  const provider = new Provider(url, {
    clients: [client('alice'), client('bob')],
    jwks: { keys: [key] },
    scopes: [...scopes],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        getResourceServerInfo: () => ({
          scope: scopes.join(' '),
          audience,
          accessTokenTTL: lifetime,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
  });
  const serve = provider.callback();
  server.on('request', (request, reply) => void serve(request, reply));
  return {
    url,
    async token(scope, as = 'alice') {
      const body = new URLSearchParams({ grant_type: 'client_credentials', scope, resource: audience });
      const authorization = `Basic ${Buffer.from(`${as}:secret`).toString('base64')}`;
      const given = await fetch(`${url}/token`, { method: 'POST', body, headers: { authorization } });
      const answer = (await given.json()) as { access_token?: string };
      const token = answer.access_token;
      if (!token) throw new Error(`The provider answered ${given.status}: ${JSON.stringify(answer)}`);
      return token;
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
