import { headerOf } from './node-request.ts';

/** A message with a body: a request, or a response of `fetch` or `lightFetch`. */
export interface BodySource {
  readonly headers: { get(name: string): string | null };
  readonly body: unknown;
  text(): Promise<string>;
}

/**
 * Reads a complete body as text. Throws the error of `tooLarge` as soon as the body exceeds
 * `maxBytes`, and reads no further.
 *
 * HTTP enforces an announced length, so such a body is read in one step, which is several times
 * faster. A compressed body may be longer than announced, and is counted like one without a length.
 */
export async function readBodyText(
  source: BodySource,
  maxBytes: number,
  tooLarge: () => Error,
): Promise<string> {
  const header = (name: string): string | null =>
    source instanceof Request ? headerOf(source, name) : source.headers.get(name);
  const announced = header('content-length');
  if (announced !== null && header('content-encoding') === null) {
    if (Number(announced) > maxBytes) throw tooLarge();
    return source.text();
  }
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of (source.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) throw tooLarge();
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}
