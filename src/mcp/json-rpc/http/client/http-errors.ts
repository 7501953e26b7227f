import type { LightResponse } from '../../../../http/light-fetch.ts';
import { DuolaneError, type ErrorCode } from '../../../../errors.ts';
import { codeOfStatus, parseRetryAfter } from '../../../../http-status.ts';
import { isObject } from '../../../../json.ts';
import { fromRpcError } from '../../../../wire/json-rpc-errors.ts';

/** What is read of the body of a refusal. */
const MAX_BODY = 64 * 1024;

/** Statuses that have a finer code in MCP than in `codeOfStatus`. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  405: 'unsupported',
  406: 'unsupported',
  409: 'conflict',
  415: 'unsupported',
};

/**
 * A refused request as what we throw, by its status; the error of a JSON-RPC body is the cause, so
 * that it can be passed on word for word. Reads the body, at most 64 KiB of it.
 */
export async function httpError(response: LightResponse, what: string): Promise<DuolaneError> {
  const { status } = response;
  const body = await readErrorBody(response);
  const error = rpcErrorIn(body);
  const said = error?.message ?? body.replace(/\s+/g, ' ').trim().slice(0, 200);
  const byStatus = CODES[status] ?? codeOfStatus(status);
  // The words of the protocol are finer than a 400, and a 404 may mean the method or the place.
  const code = error && (status === 400 || error.code === 'unsupported') ? error.code : byStatus;
  const retryAfterMs = parseRetryAfter(response.headers.get('retry-after'), Date.now());
  const advice =
    status === 401 || status === 403 ? '; give `headers` with an authorization it accepts' : '';
  return new DuolaneError(
    code,
    `the tool server refused ${what} with HTTP ${status}${said ? `: ${said}` : ''}${advice}`,
    {
      status,
      ...(error && { cause: error.cause }),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    },
  );
}

function rpcErrorIn(body: string): DuolaneError | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return isObject(value) && isObject(value['error']) ? fromRpcError(value['error']) : undefined;
  } catch {
    // A body that is not JSON has no JSON-RPC error; the HTTP status is reported.
    return undefined;
  }
}

/** The beginning of a body, at most 64 KiB; a connection that has no more to say is free again. */
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
    // Half a reason is better than none.
  }
  return Buffer.concat(parts).subarray(0, MAX_BODY).toString('utf8');
}
