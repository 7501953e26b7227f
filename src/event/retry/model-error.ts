import { DuolaneError, type ErrorCode } from '../../errors.ts';
import { codeOfStatus, parseRetryAfter } from '../../http-status.ts';
import { isObject } from '../../json.ts';

/** Names that providers, and agent CLIs, use instead of a status. */
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

/** A status, or the name that stands in its place, as one of our codes; undefined if neither is known. */
export function codeOfModel(status: number | undefined, name: string): ErrorCode | undefined {
  const known = status ?? NAMED[name];
  return known === undefined ? undefined : codeOfStatus(known);
}

/** A status with the text of the body: the message is what the provider said, if it said anything. */
export function httpStatusError(
  status: number,
  body: string,
  options: { readonly retryAfter?: string | null; readonly now?: number } = {},
): DuolaneError {
  const wait = parseRetryAfter(options.retryAfter, options.now ?? Date.now());
  const words = messageIn(body);
  const message = words.startsWith(String(status)) ? words : `${status} ${words}`;
  return new DuolaneError(codeOfStatus(status), message, {
    status,
    ...(wait !== undefined && { retryAfterMs: wait }),
    // Only what the retry rules name: 429 and 5xx. 408 and the like are told at once.
    retryable: status === 429 || status >= 500,
  });
}

/** An error object inside a stream that began with status 200. */
export function streamedError(error: unknown): DuolaneError {
  const value = isObject(error) ? error : {};
  const name = typeof value['type'] === 'string' ? value['type'] : '';
  const numeric = [value['code'], value['status'], value['status_code']].find(
    (code) => typeof code === 'number' && code >= 400,
  );
  const named = NAMED[name] ?? NAMED[String(value['code'])];
  const status = typeof numeric === 'number' ? numeric : (named ?? 500);
  const words = typeof value['message'] === 'string' ? value['message'] : JSON.stringify(error);
  return httpStatusError(status, words);
}

/**
 * Whatever a framework or a provider's client threw, or reported as an error, as ours. A status is
 * looked for where the clients of the field put it; with none, trouble of the socket is `network`,
 * and retried. What is none of these gets the code `otherwise`.
 */
export function modelError(reason: unknown, otherwise: ErrorCode = 'server'): DuolaneError {
  if (reason instanceof DuolaneError) return reason;
  const chain = causes(reason);
  for (const error of chain) {
    const status = statusIn(error);
    if (status !== undefined)
      return httpStatusError(status, text(error['message']), { retryAfter: retryAfterIn(error) });
    const name = text(error['name']);
    if (name === 'AbortError') return DuolaneError.from(reason, 'canceled');
    if (/MaxTurns|GraphRecursion/.test(name))
      return new DuolaneError('max_steps', text(error['message']), { cause: reason });
    const code = text(error['code']);
    if (/^(UND_ERR|ECONN|EPIPE|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH)/.test(code)) {
      return new DuolaneError('network', `the model could not be reached (${code})`, {
        cause: reason,
      });
    }
  }
  const words = text(chain[0]?.['message']) || String(reason);
  if (isSocketTrouble(words)) {
    return new DuolaneError('network', `the connection to the model broke (${words})`, {
      cause: reason,
    });
  }
  if (otherwise !== 'server') return DuolaneError.from(reason, otherwise);
  return new DuolaneError('server', `the model failed: ${words}`, {
    cause: reason,
    retryable: false,
  });
}

/**
 * Messages of the platform's fetch and sockets, from their beginning: a provider that writes about a
 * "social network" or a "terminated contract" must not be asked again.
 */
const SOCKET_TROUBLE =
  /^(?:(?:TypeError: )?(?:terminated|fetch failed|failed to fetch|network ?error|premature close|load failed)\b|(?:client network )?socket (?:hang up|closed|disconnected|timeout)|connection error|other side closed|read ECONN)/i;

const isSocketTrouble = (message: string): boolean => SOCKET_TROUBLE.test(message.trim());

type ErrorLike = { readonly [key: string]: unknown };
const isErrorLike = (value: unknown): value is ErrorLike =>
  typeof value === 'object' && value !== null;

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** The error and what it stands on, outermost first; a retrying client keeps the last of many. */
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
  const named = NAMED[text(error['type'])] ?? NAMED[text(error['code'])];
  if (named !== undefined) return named;
  // Gemini's client puts the body of the answer, as JSON, into the message.
  const quoted = /"code":\s*([45]\d\d)\b/.exec(text(error['message']))?.[1];
  return quoted === undefined ? undefined : Number(quoted);
}

function retryAfterIn({ responseHeaders, headers }: ErrorLike): string | null {
  if (headers instanceof Headers) return headers.get('retry-after');
  const plain = isObject(responseHeaders) ? responseHeaders : isObject(headers) ? headers : {};
  return text(plain['retry-after']) || null;
}

function messageIn(body: string): string {
  try {
    const value: unknown = JSON.parse(body);
    const error = isObject(value) ? value['error'] : undefined;
    if (isObject(error) && typeof error['message'] === 'string') return error['message'];
    if (typeof error === 'string') return error;
    if (isObject(value) && typeof value['message'] === 'string') return value['message'];
  } catch {
    // Not JSON: the text itself.
  }
  return body.trim().slice(0, 500) || 'no reason given';
}
