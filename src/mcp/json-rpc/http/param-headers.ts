import { DuolaneError, invalid } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import { decodeHeader, encodeHeaderText } from '../../../wire/encoded-header.ts';

const KEY = 'x-mcp-header';
const TOKEN = /^[!#$%&'*+.^_`|~\w-]+$/;
const TYPES: ReadonlySet<unknown> = new Set(['string', 'integer', 'boolean']);
/** Members of a schema that contain data, not schemas. */
const DATA: ReadonlySet<string> = new Set(['default', 'const', 'enum', 'examples']);
const MAX_DEPTH = 64;
/** How many tools with such parameters are remembered; beyond it the oldest is dropped. */
const MAX_KNOWN = 10_000;

/** A tool parameter that is repeated in a header, for proxies that do not read bodies. */
export interface ParamHeader {
  readonly path: readonly string[];
  /** The header name in lower case, with the prefix `mcp-param-`. */
  readonly header: string;
}

/**
 * Returns the header parameters that a schema declares. Throws `invalid` if a declaration is not
 * allowed.
 */
export function paramHeaders(schema: unknown): readonly ParamHeader[] {
  const found: ParamHeader[] = [];
  const visit = (value: unknown, path: readonly string[], reachable: boolean, depth = 0): void => {
    if (depth > MAX_DEPTH || typeof value !== 'object' || value === null) return;
    if (isObject(value) && KEY in value) found.push(declared(value, path, reachable));
    for (const [key, inner] of Object.entries(value)) {
      if (DATA.has(key)) continue;
      if (key !== 'properties' || !isObject(inner)) visit(inner, path, false, depth + 1);
      else
        for (const [name, property] of Object.entries(inner))
          visit(property, [...path, name], reachable, depth + 1);
    }
  };
  visit(schema, [], true);
  const names = new Set(found.map(({ header }) => header));
  if (names.size < found.length) throw bad('two parameters have the same header; rename one');
  return found;
}

function declared(
  { [KEY]: name, type }: JsonObject,
  path: readonly string[],
  reachable: boolean,
): ParamHeader {
  if (!reachable || path.length === 0) throw bad('it must be on a property');
  if (typeof name !== 'string' || !TOKEN.test(name))
    throw bad(`invalid header name ${JSON.stringify(name)}: expected a token`);
  if (!TYPES.has(type)) throw bad(`${path.join('.')} must be a string, an integer or a boolean`);
  return { path, header: `mcp-param-${name.toLowerCase()}` };
}

const bad = (why: string): DuolaneError => invalid(`${KEY}: ${why}`);

/** The value of a parameter as header text; `undefined` if the call does not have it. */
export function paramText(args: unknown, { path }: ParamHeader): string | undefined {
  let value: unknown = args;
  for (const name of path) value = isObject(value) ? value[name] : undefined;
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : undefined;
}

/** The header parameters of the tools in lists that passed through here. */
export class ParamHeaders {
  readonly #known = new Map<string, readonly ParamHeader[]>();

  /** Returns the tools of a list whose header declarations are valid. `refused` gets the others. */
  admit(tools: readonly unknown[], refused?: (name: string, why: string) => void): unknown[] {
    return tools.filter((tool) => {
      if (!isObject(tool) || typeof tool['name'] !== 'string') return true;
      try {
        this.#learn(tool['name'], paramHeaders(tool['inputSchema']));
        return true;
      } catch (error) {
        refused?.(tool['name'], DuolaneError.from(error).message);
        return false;
      }
    });
  }

  /** The parameter headers of a call. */
  of(name: unknown, args: unknown): Record<string, string> {
    const known = this.#known.get(String(name)) ?? [];
    const headers = known.map((each) => [each.header, paramText(args, each)] as const);
    return Object.fromEntries(
      headers.flatMap(([header, text]) =>
        text === undefined ? [] : [[header, text === '' ? '' : encodeHeaderText(text)]],
      ),
    );
  }

  /** Returns the first parameter header of a call that differs from the body. */
  mismatch(name: unknown, args: unknown, headers: Headers): string | undefined {
    const known = this.#known.get(String(name)) ?? [];
    return known.find((each) => {
      const given = headers.get(each.header);
      return (given === null ? undefined : decodeHeader(given)) !== paramText(args, each);
    })?.header;
  }

  #learn(name: string, headers: readonly ParamHeader[]): void {
    this.#known.delete(name);
    if (headers.length === 0) return;
    this.#known.set(name, headers);
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest);
  }
}
