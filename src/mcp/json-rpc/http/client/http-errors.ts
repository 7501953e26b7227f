import type { LightResponse } from '../../../../http/light-fetch.ts';
import { DuolaneError, type DuolaneErrorOptions, type ErrorCode } from '../../../../errors.ts';
import { codeOfStatus, parseRetryAfter } from '../../../../http-status.ts';
import { asObject, isObject, omitUndefined, tryParse } from '../../../../json.ts';
import { fromRpcError } from '../../../../wire/json-rpc-errors.ts';

/** How many bytes of an error body are read. */
const MAX_BODY = 64 * 1024;

/** Statuses that have a finer code in MCP than in `codeOfStatus`. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  405: 'unsupported',
  406: 'unsupported',
  409: 'conflict',
  415: 'unsupported',
};

/**
 * Converts an error response to an error, by its status. The error of a JSON-RPC body becomes the
 * cause, so that it can be passed on unchanged. Reads at most 64 KiB of the body.
 */
export async function httpError(response: LightResponse, what: string): Promise<DuolaneError> {
  const { status } = response;
  const body = await readErrorBody(response);
  const rpc = asObject(tryParse(body))['error'];
  const error = isObject(rpc) ? fromRpcError(rpc) : undefined;
  const detail = error?.message ?? body.replace(/\s+/g, ' ').trim().slice(0, 200);
  const byStatus = CODES[status] ?? codeOfStatus(status);
  // A JSON-RPC code says more than a 400, and a 404 may mean the method or the address.
  const code = error && (status === 400 || error.code === 'unsupported') ? error.code : byStatus;
  const retryAfterMs = parseRetryAfter(response.headers.get('retry-after'), Date.now());
  const advice = status === 401 || status === 403 ? '; set headers with a valid authorization' : '';
  return new DuolaneError(
    code,
    `the tool server responded to ${what} with HTTP ${status}${detail ? `: ${detail}` : ''}${advice}`,
    omitUndefined<DuolaneErrorOptions>({ status, cause: error?.cause, retryAfterMs }),
  );
}

/** Requests that may be sent twice, because they only read. */
export const SAFE: RegExp =
  /\/list$|^resources\/read$|^prompts\/get$|^completion\/complete$|^ping$/;

/** The handshakes: like a safe request, they execute nothing. */
const OPENING: ReadonlySet<string> = new Set(['initialize', 'server/discover']);

/** The error of a response that will not arrive: its request may have been executed. */
export const lostResponse = (method: string, why: string): DuolaneError =>
  new DuolaneError('response_lost', `the response to ${method} was lost: ${why}`);

/** The error of a request whose session the server has lost; a new session is open. */
export const lostSession = (method: string): DuolaneError =>
  new DuolaneError(
    'interrupted',
    `${method} was not executed: the tool server had lost the session; a new one is open, try again`,
  );

/** Rethrows the error of a message that no response belongs to; its time limit gets a code. */
export const notDelivered =
  (ms: number) =>
  (error: unknown): never => {
    if (!(error instanceof Error && error.name === 'TimeoutError')) throw error;
    const message = `sending a message timed out after ${ms} ms: no response of the tool server`;
    throw new DuolaneError('timeout', message, { cause: error });
  };

/** The error of a response whose body cannot be read, by what its request may have done. */
export function bodyError(error: unknown, method: string, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  const isBroken = DuolaneError.from(error).code === 'network';
  const isHarmless = SAFE.test(method) || OPENING.has(method);
  return isBroken && !isHarmless ? lostResponse(method, 'the connection broke') : error;
}

/**
 * Reads the start of a body, at most 64 KiB. A body that ends within the limit frees its
 * connection.
 */
export async function readErrorBody(response: LightResponse): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const part of response.body ?? []) {
      parts.push(part as Uint8Array);
      bytes += (part as Uint8Array).byteLength;
      if (bytes > MAX_BODY) break;
    }
  } catch {
    // A partial message is better than none.
  }
  return Buffer.concat(parts).subarray(0, MAX_BODY).toString('utf8');
}
