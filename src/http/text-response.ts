import { inheritWebMembers } from './lazy-web-object.ts';

/**
 * Creates a response with a known body: our server writes it in one piece, with its length and
 * without a web stream.
 */
export const textResponse = (
  text: string,
  status: number,
  headers: Readonly<Record<string, string>>,
): Response => new TextResponse(text, status, headers) as unknown as Response;

/** `Response.json` with a known body, as `textResponse`. */
export const jsonResponse = (
  value: unknown,
  { status = 200, headers = {} }: JsonResponseInit = {},
): Response =>
  textResponse(JSON.stringify(value), status, { 'content-type': 'application/json', ...headers });

interface JsonResponseInit {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The text of a response of `textResponse`, without reading its body. */
export const responseText = (
  response: Response,
): { readonly text: string; readonly fields: Readonly<Record<string, string>> } | undefined =>
  (response as unknown) instanceof TextResponse
    ? (response as unknown as TextResponse).content
    : undefined;

/** Behaves like a web `Response`. The real one and its `Headers` are created on first use. */
class TextResponse {
  readonly status: number;
  readonly #text: string;
  readonly #fields: Readonly<Record<string, string>>;
  #headers: Headers | undefined;
  #target: Response | undefined;

  constructor(text: string, status: number, fields: Readonly<Record<string, string>>) {
    this.#text = text;
    this.status = status;
    this.#fields = fields;
  }

  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }

  get headers(): Headers {
    return (this.#headers ??= new Headers(this.#fields));
  }

  get content(): { readonly text: string; readonly fields: Readonly<Record<string, string>> } {
    const fields = this.#headers ? Object.fromEntries(this.#headers) : this.#fields;
    return { text: this.#text, fields };
  }

  get target(): Response {
    const { status, headers } = this;
    return (this.#target ??= new Response(this.#text, { status, headers }));
  }
}

inheritWebMembers<Response>(TextResponse, Response);
