import { DuolaneError, type ErrorCode } from '../../errors.ts';
import { codeOfStatus, type HeaderReader, retryAfterOf } from '../../http-status.ts';
import { asObject, asString, tryParse } from '../../json.ts';

/** The status that providers and agent CLIs mean by a name. */
const NAMED: Readonly<Record<string, number>> = {
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  overloaded_error: 529,
  api_error: 500,
  server_error: 500,
  timeout_error: 504,
  authentication_error: 401,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  invalid_request_error: 400,
  rate_limit: 429,
  overloaded: 529,
  authentication_failed: 401,
  model_not_found: 404,
  invalid_request: 400,
};

/**
 * Maps a status, or the name that stands for it, to one of our codes; undefined if both are
 * unknown.
 */
export function codeOfModel(status: number | undefined, name: string): ErrorCode | undefined {
  const known = status ?? NAMED[name];
  return known === undefined ? undefined : codeOfStatus(known);
}

/**
 * Makes an error of a status, a body and the headers of a response. Its message is the provider's,
 * if the body has one.
 */
export function httpStatusError(
  status: number,
  body: string,
  header: HeaderReader = () => undefined,
): DuolaneError {
  const wait = retryAfterOf(header);
  const reason = messageIn(body);
  const message = reason.startsWith(String(status)) ? reason : `${status} ${reason}`;
  return new DuolaneError(codeOfStatus(status), message, {
    status,
    ...(wait !== undefined && { retryAfterMs: wait }),
    // Only the codes that the retry rules name, 429 and 5xx, are retried; 408 is not.
    retryable: status === 429 || status >= 500,
  });
}

/** Makes an error of an error object in a stream that began with status 200. */
export function streamedError(error: unknown): DuolaneError {
  const value = asObject(error);
  const name = asString(value['type']);
  const numeric = [value['code'], value['status'], value['status_code']].find(
    (code) => typeof code === 'number' && code >= 400,
  );
  const named = NAMED[name] ?? NAMED[String(value['code'])];
  const status = typeof numeric === 'number' ? numeric : (named ?? 500);
  return httpStatusError(status, asString(value['message'], JSON.stringify(error)));
}

/**
 * Converts what a framework or a provider's client threw, or reported as an error. The status is
 * searched where the common clients put it; without one, a socket error is `network`, which is
 * retried. Any other error gets the code `otherwise`.
 */
export function modelError(cause: unknown, otherwise: ErrorCode = 'server'): DuolaneError {
  if (cause instanceof DuolaneError) return cause;
  const chain = causes(cause);
  for (const error of chain) {
    const status = statusIn(error);
    if (status !== undefined)
      return httpStatusError(status, asString(error['message']), headerIn(error));
    const name = asString(error['name']);
    if (name === 'AbortError') return DuolaneError.from(cause, 'canceled');
    if (/MaxTurns|GraphRecursion/.test(name))
      return new DuolaneError('max_steps', asString(error['message']), { cause });
    const code = asString(error['code']);
    if (/^(UND_ERR|ECONN|EPIPE|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH)/.test(code))
      return new DuolaneError('network', `the model could not be reached (${code})`, { cause });
  }
  const message = asString(chain[0]?.['message']) || String(cause);
  if (SOCKET_TROUBLE.test(message.trim()))
    return new DuolaneError('network', `the connection to the model broke (${message})`, { cause });
  if (otherwise !== 'server') return DuolaneError.from(cause, otherwise);
  return new DuolaneError('server', `the model failed: ${message}`, { cause, retryable: false });
}

/**
 * Messages of the platform's fetch and sockets, matched from their start: a provider's message
 * about a "social network" or a "terminated contract" must not cause a retry.
 */
const SOCKET_TROUBLE =
  /^(?:(?:TypeError: )?(?:terminated|fetch failed|failed to fetch|network ?error|premature close|load failed)\b|(?:client network )?socket (?:hang up|closed|disconnected|timeout)|connection error|other side closed|read ECONN)/i;

type ErrorLike = { readonly [key: string]: unknown };
const isErrorLike = (value: unknown): value is ErrorLike =>
  typeof value === 'object' && value !== null;

/** Returns the error and its causes, outermost first. A retrying client keeps the last error. */
function causes(reason: unknown): readonly ErrorLike[] {
  const chain: ErrorLike[] = [];
  for (let error = reason; isErrorLike(error) && !chain.includes(error) && chain.length < 10;) {
    chain.push(error);
    error = error['lastError'] ?? error['cause'] ?? error['error'];
  }
  return chain;
}

function statusIn(error: ErrorLike): number | undefined {
  const fields = ['status', 'statusCode', 'error_status', 'code', 'errorCode'];
  const numbers = fields.map((field) => Number(error[field])).filter((n) => n >= 400 && n < 600);
  if (numbers[0] !== undefined) return numbers[0];
  const named = NAMED[asString(error['type'])] ?? NAMED[asString(error['code'])];
  if (named !== undefined) return named;
  // Gemini's client puts the body of the response, as JSON, into the message.
  const quoted = /"code":\s*([45]\d\d)\b/.exec(asString(error['message']))?.[1];
  return quoted === undefined ? undefined : Number(quoted);
}

/** Reads a header of the response that an error keeps, if it keeps one. */
function headerIn({ responseHeaders, headers }: ErrorLike): HeaderReader {
  if (headers instanceof Headers) return (name) => headers.get(name);
  const fields = isErrorLike(responseHeaders) ? responseHeaders : headers;
  return (name) => {
    const value = isErrorLike(fields) ? fields[name] : undefined;
    return typeof value === 'string' ? value : undefined;
  };
}

function messageIn(body: string): string {
  const { error, message } = asObject(tryParse(body));
  const named = [asObject(error)['message'], error, message];
  const found = named.find((text) => typeof text === 'string');
  // Not JSON: the text itself.
  return found ?? (body.trim().slice(0, 500) || 'no reason given');
}
