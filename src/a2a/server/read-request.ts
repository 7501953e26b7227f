import { headerOf, urlOf } from '../../http/node-request.ts';
import { readBodyText } from '../../http/read-body.ts';
import { asObject, bodyProblem, type JsonObject } from '../../json.ts';
import type { Version } from '../protocol/dialect.ts';
import { A2AError } from '../protocol/a2a-errors.ts';

/** The headers of an HTTP request, or the metadata of a gRPC call. */
export interface HeaderFields {
  /** `name` in lower case. */
  get(name: string): string | null;
}

export const headerFields = (request: Request): HeaderFields => ({
  get: (name) => headerOf(request, name),
});

/** The version that the caller requests by header or query; the patch number is ignored. */
export const readVersion = (request: Request): Version | undefined =>
  parseVersion(headerOf(request, 'a2a-version') || urlOf(request).searchParams.get('A2A-Version'));

/** Parses a version; undefined if none is given. Throws `VERSION_NOT_SUPPORTED`. */
export function parseVersion(given: string | null): Version | undefined {
  if (!given) return undefined;
  const [, version] = /^(\d+\.\d+)(?:\.\d+)?$/.exec(given.trim()) ?? [];
  if (version === '1.0' || version === '0.3') return version;
  throw new A2AError(
    'VERSION_NOT_SUPPORTED',
    `unsupported A2A version "${given}"; available: 1.0, 0.3`,
  );
}

/** What a call needs of its headers. */
export const readCallFields = (
  fields: HeaderFields,
  params: JsonObject,
): { readonly lastEventId: string | undefined; readonly extensions: readonly string[] } => ({
  lastEventId: readLastEventId(fields, params),
  extensions: readExtensions(fields),
});

const MAX_EVENT_ID_CHARS = 1024;

/** The last event id of the caller, from the header of SSE or the metadata of the request. */
function readLastEventId(fields: HeaderFields, params: JsonObject): string | undefined {
  const metadata = asObject(params['metadata']);
  const given = fields.get('last-event-id') || metadata['lastEventId'];
  if (given === undefined || given === null || given === '') return undefined;
  // A JSON number is accepted as an id. Any other value becomes text that is not a valid id.
  const id = typeof given === 'string' ? given : JSON.stringify(given);
  // A longer text would be kept in memory as long as the operation takes.
  if (id.length <= MAX_EVENT_ID_CHARS) return id;
  throw new A2AError(
    'INVALID_PARAMS',
    `invalid lastEventId: expected at most ${MAX_EVENT_ID_CHARS} characters`,
  );
}

/** The extensions that the caller supports; in 0.3 the header has the prefix X. */
function readExtensions(fields: HeaderFields): readonly string[] {
  const given = fields.get('a2a-extensions') ?? fields.get('x-a2a-extensions') ?? '';
  return given
    .split(',')
    .map((uri) => uri.trim())
    .filter((uri) => uri !== '');
}

/** Parses the JSON body. A body over the limit is refused before it is read to the end. */
export async function readJsonRequest(request: Request, maxBytes: number): Promise<unknown> {
  checkJson(headerOf(request, 'content-type') ?? '');
  return parseJson(await readBody(request, maxBytes));
}

/** Throws for a content type that is not JSON. */
export function checkJson(type: string): void {
  if (/^application\/(a2a\+)?json\b/i.test(type)) return;
  throw new A2AError(
    'CONTENT_TYPE_NOT_SUPPORTED',
    `invalid content type "${type}": expected application/json`,
  );
}

/** Parses JSON with limits for depth and number of values. */
export function parseJson(text: string): unknown {
  const problem = bodyProblem(text);
  if (problem !== undefined) throw new A2AError('INVALID_PARAMS', problem);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new A2AError('PARSE_ERROR', 'invalid body: expected JSON', { cause });
  }
}

/** Reads a body as text. Throws `CONTENT_TOO_LARGE`. */
export function readBody(request: Request, maxBytes: number): Promise<string> {
  const tooLarge = (): A2AError =>
    new A2AError('CONTENT_TOO_LARGE', `the body exceeds maxBodyBytes (${maxBytes}); send less`);
  return readBodyText(request, maxBytes, tooLarge);
}
