import { headerOf, urlOf } from '../../http/node-request.ts';
import { readBodyText } from '../../http/read-body.ts';
import { bodyProblem, isObject, type JsonObject } from '../../json.ts';
import type { Version } from '../protocol/dialect.ts';
import { A2AError } from '../protocol/a2a-errors.ts';

/** What travels beside a request: the headers of HTTP, or the metadata of gRPC. */
export interface HeaderFields {
  /** By its name in lower case. */
  get(name: string): string | null;
}

export const headerFields = (request: Request): HeaderFields => ({
  get: (name) => headerOf(request, name),
});

/** The version that the caller asked for, by header or query; the patch number takes no part. */
export const readVersion = (request: Request): Version | undefined =>
  parseVersion(headerOf(request, 'a2a-version') || urlOf(request).searchParams.get('A2A-Version'));

export function parseVersion(given: string | null): Version | undefined {
  if (!given) return undefined;
  const [, version] = /^(\d+\.\d+)(?:\.\d+)?$/.exec(given.trim()) ?? [];
  if (version === '1.0' || version === '0.3') return version;
  throw new A2AError(
    'VERSION_NOT_SUPPORTED',
    `A2A ${given} is not spoken here; ask for 1.0 or 0.3`,
  );
}

/** Where the caller's last stream broke off: by SSE's own header, or in the request's metadata. */
export function readLastEventId(fields: HeaderFields, params: JsonObject): string | undefined {
  const metadata = isObject(params['metadata']) ? params['metadata'] : {};
  const given = fields.get('last-event-id') || metadata['lastEventId'];
  if (given === undefined || given === null || given === '') return undefined;
  // A number of JSON is meant as the id; whatever else is none, and is refused as such.
  return typeof given === 'string' ? given : JSON.stringify(given);
}

/** The extensions that the caller speaks; 0.3 spelled the header with an X. */
export function readExtensions(fields: HeaderFields): readonly string[] {
  const given = fields.get('a2a-extensions') ?? fields.get('x-a2a-extensions') ?? '';
  return given
    .split(',')
    .map((uri) => uri.trim())
    .filter((uri) => uri !== '');
}

/** The body as JSON. One over the limit is refused before it is read to the end. */
export async function readJsonRequest(request: Request, maxBytes: number): Promise<unknown> {
  const type = headerOf(request, 'content-type') ?? '';
  if (!/^application\/(a2a\+)?json\b/i.test(type))
    throw new A2AError('CONTENT_TYPE_NOT_SUPPORTED', `send application/json, not "${type}"`);
  return parseJson(await readBody(request, maxBytes));
}

export function parseJson(text: string): unknown {
  const problem = bodyProblem(text);
  if (problem !== undefined) throw new A2AError('INVALID_PARAMS', problem);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new A2AError('PARSE_ERROR', 'the body is not JSON', { cause });
  }
}

export function readBody(request: Request, maxBytes: number): Promise<string> {
  const over = (): A2AError =>
    new A2AError('CONTENT_TOO_LARGE', `the body is over ${maxBytes} bytes`);
  return readBodyText(request, maxBytes, over);
}
