import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { describeValue } from './describe-value.ts';
import type { McpBridge } from '../callbacks/mcp-bridge.ts';
import type {
  McpServerConfig,
  ProcessServerConfig,
  SdkServerConfig,
  SessionOptions,
} from './options.ts';
import { isSource, toToolSource } from './to-tool-source.ts';

/** The servers of `mcpServers`, split into those of the CLI and those in this process. */
export interface ParsedServers {
  readonly process: Readonly<Record<string, ProcessServerConfig>>;
  readonly sdk: readonly {
    readonly name: string;
    readonly instance: object;
    readonly timeout?: number;
  }[];
}

const invalid = (message: string): DuolaneError => new DuolaneError('invalid', message);

const isSdk = (value: object): value is SdkServerConfig => 'type' in value && value.type === 'sdk';

/**
 * Splits `mcpServers`. Throws `invalid` with the name of a server that has none of the four forms.
 */
export function parseMcpServers({ mcpServers = {} }: SessionOptions): ParsedServers {
  const external: Record<string, ProcessServerConfig> = {};
  const sdk: { name: string; instance: object; timeout?: number }[] = [];
  for (const [name, config] of Object.entries(mcpServers)) {
    if (!isObject(config)) throw invalid(`mcpServers.${name} must be an object`);
    const given: object = config;
    if (isSource(given)) sdk.push({ name, instance: given });
    else if (isSdk(given)) {
      if (!isObject(given.instance))
        throw invalid(`mcpServers.${name} has type 'sdk': expected its server object as instance`);
      sdk.push({
        name,
        instance: given.instance,
        ...(given.timeout !== undefined && { timeout: given.timeout }),
      });
    } else if ('command' in given || 'url' in given) {
      checkServer(name, given);
      external[name] = given as ProcessServerConfig;
    } else {
      throw invalid(
        `mcpServers.${name} must have command (stdio), url (http, sse), or type 'sdk' with an instance`,
      );
    }
  }
  return { process: external, sdk };
}

function checkServer(name: string, given: object): void {
  const { type, url } = given as { readonly type?: unknown; readonly url?: unknown };
  if (type !== undefined && !['stdio', 'http', 'sse'].includes(type as string))
    throw invalid(
      `mcpServers.${name}.type must be stdio, http, sse or sdk, got ${describeValue(type)}`,
    );
  if (url !== undefined && !(typeof url === 'string' && URL.canParse(url)))
    throw invalid(`mcpServers.${name}.url must be a URL, got ${describeValue(url)}`);
}

/**
 * Replaces the servers of the bridge. Returns the fields of the `mcp_set_servers` request, and the
 * servers in this process that it declares.
 */
export async function replaceServers(
  bridge: McpBridge,
  mcpServers: Readonly<Record<string, McpServerConfig>>,
): Promise<{ readonly fields: JsonObject; readonly declared: ParsedServers['sdk'] }> {
  const { process, sdk } = parseMcpServers({ mcpServers });
  const sources = await Promise.all(
    sdk.map(async ({ name, instance }) => [name, await toToolSource(instance)] as const),
  );
  for (const name of bridge.names) await bridge.remove(name);
  for (const [name, source] of sources) bridge.add(name, source);
  const named = sdk.map(({ name, timeout }) => [
    name,
    { type: 'sdk', name, ...(timeout !== undefined && { timeout }) },
  ]);
  return { fields: { servers: { ...process, ...Object.fromEntries(named) } }, declared: sdk };
}
