import { isObject, type JsonObject } from '../../../json.ts';
import { encodeHeaderText } from '../../../wire/encoded-header.ts';
import { META, metaOf } from '../protocol-versions.ts';

/** The parameter that names the target of a request; `Mcp-Name` repeats it for these methods. */
const NAMED: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
};

/** The routing headers of a stateless request, for proxies that do not read its body. */
export function requestHeaders({ method, params }: JsonObject): Record<string, string | undefined> {
  const version = metaOf(params)[META.version];
  if (typeof version !== 'string' || typeof method !== 'string') return {};
  return {
    'mcp-protocol-version': version,
    'mcp-method': method,
    'mcp-name': nameIn(method, params),
  };
}

/** The encoded `Mcp-Name`; `undefined` if the method has none. */
export function nameIn(method: string, params: unknown): string | undefined {
  const key = Object.hasOwn(NAMED, method) ? NAMED[method] : undefined;
  const name = key !== undefined && isObject(params) ? params[key] : undefined;
  return typeof name === 'string' ? encodeHeaderText(name) : undefined;
}
