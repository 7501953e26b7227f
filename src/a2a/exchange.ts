import { isObject, type JsonObject } from '../json.ts';
import type { Version } from './dialect.ts';
import { Refusal } from './errors.ts';

/** The version that the caller asked for, by header or query; the patch number takes no part. */
export function readVersion(request: Request): Version | undefined {
  const given =
    request.headers.get('a2a-version') ||
    new URL(request.url).searchParams.get('A2A-Version') ||
    undefined;
  if (given === undefined) return undefined;
  const [, version] = /^(\d+\.\d+)(?:\.\d+)?$/.exec(given.trim()) ?? [];
  if (version === '1.0' || version === '0.3') return version;
  throw new Refusal('VERSION_NOT_SUPPORTED', `A2A ${given} is not spoken here; ask for 1.0 or 0.3`);
}

/** Where the caller's last stream broke off: by SSE's own header, or in the request's metadata. */
export function readLastEventId(request: Request, params: JsonObject): string | undefined {
  const metadata = isObject(params['metadata']) ? params['metadata'] : {};
  const given = request.headers.get('last-event-id') ?? metadata['lastEventId'];
  return typeof given === 'string' && given !== '' ? given : undefined;
}

/** The extensions that the caller speaks; 0.3 spelled the header with an X. */
export function readExtensions(request: Request): readonly string[] {
  const { headers } = request;
  const given = headers.get('a2a-extensions') ?? headers.get('x-a2a-extensions') ?? '';
  return given
    .split(',')
    .map((uri) => uri.trim())
    .filter((uri) => uri !== '');
}

/** The body as JSON. One over the limit is refused before it is read to the end. */
export async function readJson(request: Request, maxBytes: number): Promise<unknown> {
  const type = request.headers.get('content-type') ?? '';
  if (!/^application\/(a2a\+)?json\b/i.test(type))
    throw new Refusal('CONTENT_TYPE_NOT_SUPPORTED', `send application/json, not "${type}"`);
  return parseJson(await readBody(request, maxBytes));
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Refusal('PARSE_ERROR', 'the body is not JSON', { cause });
  }
}

export async function readBody(request: Request, maxBytes: number): Promise<string> {
  const over = (): Refusal =>
    new Refusal('CONTENT_TOO_LARGE', `the body is over ${maxBytes} bytes`);
  const declared = request.headers.get('content-length');
  if (Number(declared) > maxBytes) throw over();
  // A body is never longer than it says; one that does not say is watched as it comes.
  if (declared !== null) return request.text();
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.length;
    if (length > maxBytes) throw over();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
