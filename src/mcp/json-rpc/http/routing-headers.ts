import { isObject, type JsonObject } from '../../../json.ts';
import { encodeHeaderText } from '../../../wire/encoded-header.ts';
import { META, metaOf } from '../protocol-versions.ts';

/** Where a request names what it is about; these methods mirror it in `Mcp-Name`. */
const NAMED: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
};

/** What a stateless request says in its headers too, for those who do not read its body. */
export function requestHeaders({ method, params }: JsonObject): Record<string, string | undefined> {
  const version = metaOf(params)[META.version];
  if (typeof version !== 'string' || typeof method !== 'string') return {};
  return {
    'mcp-protocol-version': version,
    'mcp-method': method,
    'mcp-name': nameIn(method, params),
  };
}

/** The mirrored name, encoded; undefined where the method has none. */
export function nameIn(method: string, params: unknown): string | undefined {
  const key = NAMED[method];
  const name = key !== undefined && isObject(params) ? params[key] : undefined;
  return typeof name === 'string' ? encodeHeaderText(name) : undefined;
}
