import { DuolaneError } from '../../src/errors.ts';
import { isObject, type JsonObject } from '../../src/json.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import type { OAuthClient, OAuthOptions } from '../../src/mcp/json-rpc/http/client/oauth/types.ts';
import type { ToolCall, ToolSource } from '../../src/mcp/types.ts';

/**
 * The client that the conformance suite runs against its own servers: it dials the given address
 * and uses every feature of the server. The login succeeds without user interaction.
 */
const url = process.argv.at(-1)!;
const { MCP_CONFORMANCE_CONTEXT: text = '{}', MCP_CONFORMANCE_PROTOCOL_VERSION: version = '' } =
  process.env;
const context = JSON.parse(text) as JsonObject;

const known = ({ client_id: id, ...rest }: JsonObject): OAuthClient | undefined => {
  if (typeof id !== 'string') return undefined;
  const { client_secret: secret, private_key_pem: privateKey, signing_algorithm: algorithm } = rest;
  return {
    id,
    ...(typeof secret === 'string' && { secret }),
    ...(typeof privateKey === 'string' && { privateKey }),
    ...(typeof algorithm === 'string' && { algorithm }),
  };
};

/** Follows the one redirect of a login page without a form. */
const authorize = async (page: URL): Promise<URL> => {
  const { headers } = await fetch(page, { redirect: 'manual' });
  return new URL(headers.get('location')!);
};

/** A real program knows the issuer of its secret; here only the metadata of the suite names it. */
const issuerOf = async (server: URL): Promise<string> => {
  const name = '/.well-known/oauth-protected-resource';
  for (const place of [`${name}${server.pathname}`, name]) {
    const response = await fetch(new URL(place, server));
    const found = response.ok ? ((await response.json()) as JsonObject) : {};
    const [issuer] = (found['authorization_servers'] ?? []) as string[];
    if (issuer !== undefined) return issuer;
  }
  return server.origin;
};

const unbound = known(context);
const client =
  unbound?.secret === undefined ? unbound : { ...unbound, issuer: await issuerOf(new URL(url)) };
const alone = process.env['MCP_CONFORMANCE_SCENARIO']?.includes('client-credentials');
const oauth: OAuthOptions = {
  ...(client && { client }),
  ...(!alone && { authorize, redirectUrl: 'http://localhost:3000/callback' }),
  clientMetadataUrl: 'https://conformance-test.local/client-metadata.json',
};

const onRequest = async (method: string, params: JsonObject): Promise<JsonObject> => {
  if (method !== 'elicitation/create') return { roots: [] };
  return { action: 'accept', content: sample(params['requestedSchema']) };
};

const capabilities = { elicitation: {}, roots: {} };
const protocol = version >= '2026' ? 'stateless' : 'session';
await using source = await dialHttp({ url, protocol, oauth, capabilities, onRequest });

const tools = new Map<string, JsonObject>();
for await (const { name, inputSchema } of source.listTools()) tools.set(name, inputSchema);
const echoed = tools.get('json_schema_2020_12_tool');
const wanted = context['toolCalls'] as { name: string; arguments: JsonObject }[] | undefined;
for (const { name, arguments: args } of wanted ?? [])
  if (tools.has(name)) await call({ id: crypto.randomUUID(), name, args });
for (const [name, inputSchema] of wanted ? [] : tools) {
  const args = name === 'json_schema_echo' ? { schema: echoed } : sample(inputSchema);
  await call({ id: crypto.randomUUID(), name, args });
}
await useRest(source);

async function call(made: ToolCall): Promise<void> {
  try {
    for await (const { type } of source.callTool(made)) if (type === 'input') process.exitCode = 1;
  } catch (error) {
    // Some servers of the suite list tools that cannot be called.
    if (DuolaneError.from(error).code !== 'unsupported') throw error;
  }
}

async function useRest(all: ToolSource): Promise<void> {
  for await (const { uri } of all.listResources?.() ?? [])
    for await (const part of all.readResource!(String(uri))) void part;
  for await (const { name } of all.listPrompts?.() ?? []) await all.getPrompt!(String(name), {});
}

/** A value that is valid for a schema: its defaults, or the simplest value of each type. */
function sample(schema: unknown): JsonObject {
  const properties = isObject(schema) && isObject(schema['properties']) ? schema['properties'] : {};
  const values = Object.entries(properties).map(([name, property]) => {
    const { type, default: given } = isObject(property) ? property : {};
    if (given !== undefined) return [name, given];
    if (type === 'number' || type === 'integer') return [name, 1];
    return [name, type === 'boolean' ? true : 'text'];
  });
  return Object.fromEntries(values) as JsonObject;
}
