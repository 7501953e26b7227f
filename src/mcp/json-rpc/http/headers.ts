import { isObject, type JsonObject } from '../../../json.ts';
import { META, metaOf } from '../era.ts';

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
  return typeof name === 'string' ? encodeHeader(name) : undefined;
}

/** Text that a header cannot carry as it is goes in base64 between two marks. */
export const encodeHeader = (text: string): string =>
  /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?.*\?=$/.test(text)
    ? text
    : `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`;

/** Undefined for what is no valid encoding. */
export function decodeHeader(value: string): string | undefined {
  const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(value) ?? [];
  if (encoded === undefined) return value;
  const bytes = Buffer.from(encoded, 'base64');
  return bytes.toString('base64') === encoded ? bytes.toString('utf8') : undefined;
}
