import { asObject, asObjects, type JsonObject, omitUndefined } from '../../json.ts';

const HIDDEN = '(hidden)';

/**
 * A message as it may be logged: without the values of environment variables and headers of MCP
 * servers, and of terminals, which often are keys.
 */
export function withoutSecrets(message: JsonObject): JsonObject {
  const { mcpServers, env, ...params } = asObject(message['params']);
  if (mcpServers === undefined && env === undefined) return message;
  const servers = asObjects(mcpServers).map(({ env: own, headers, ...server }) =>
    omitUndefined({ ...server, env: hidden(own), headers: hidden(headers) }),
  );
  const shown = { ...params, mcpServers: mcpServers && servers, env: hidden(env) };
  return { ...message, params: omitUndefined(shown) };
}

const hidden = (values: unknown): readonly JsonObject[] | undefined =>
  values === undefined ? undefined : asObjects(values).map((each) => ({ ...each, value: HIDDEN }));
