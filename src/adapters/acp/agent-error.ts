import { DuolaneError, type ErrorCode, RETRYABLE } from '../../errors.ts';
import { modelError } from '../../event/retry/model-error.ts';
import {
  asNumber,
  asObject,
  asString,
  isObject,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
import { ACP_ERROR } from '../../wire/acp-protocol.ts';

/**
 * Converts the error response of an agent. The protocol has no code for a failure of the model, so
 * agents put its status into the code of the error or into its data; both are read. An error
 * without a status is not retried, because it may be of any kind.
 */
export function agentError(
  reason: unknown,
  method: string,
  loginAdvice: () => DuolaneError,
): unknown {
  const sent = asObject(asObject(asObject(reason)['cause'])['error']);
  if (!(reason instanceof DuolaneError) || typeof sent['code'] !== 'number') return reason;
  const { code, data } = sent;
  const details = asObject(data);
  if (code === ACP_ERROR.authRequired) {
    const { message } = loginAdvice();
    return new DuolaneError('unauthorized', message, { cause: reason });
  }
  const message = `the agent failed in ${method}: ${textOfError(sent)}`;
  const own = ownFailure(details, message, reason);
  if (own) return own;
  const status = statusOf(code, details);
  if (status === undefined && reason.code !== 'server') {
    return new DuolaneError(reason.code, message, { cause: reason, retryable: false });
  }
  const {
    code: kind,
    status: known,
    retryAfterMs,
    retryable,
  } = modelError(
    {
      ...details,
      message: detailOf(sent) ?? asString(sent['message']),
      ...omitUndefined({ status }),
    },
    'server',
  );
  return new DuolaneError(kind, message, {
    cause: reason,
    retryable: known === undefined && kind === 'server' ? false : retryable,
    ...omitUndefined({ status: known, retryAfterMs }),
  });
}

/** The failure in the data of an error of `duolane-agent`, which has our codes. */
function ownFailure(
  { duolane }: JsonObject,
  message: string,
  cause: unknown,
): DuolaneError | undefined {
  if (!isObject(duolane)) return undefined;
  const code = asString(duolane['code']);
  if (!Object.hasOwn(RETRYABLE, code)) return undefined;
  const status = asNumber(duolane['status']);
  return new DuolaneError(code as ErrorCode, message, {
    cause,
    ...(typeof duolane['retryable'] === 'boolean' && { retryable: duolane['retryable'] }),
    ...omitUndefined({ status }),
  });
}

function statusOf(code: number, data: JsonObject): number | undefined {
  const known = [
    code,
    data['status'],
    data['statusCode'],
    data['httpStatus'],
    data['http_status_code'],
  ];
  return known.map(asNumber).find((each) => each !== undefined && each >= 400 && each < 600);
}

/** The message, and what the data says beyond it: agents often send only "Internal error". */
function textOfError(sent: JsonObject): string {
  const text = asString(sent['message']);
  const more = detailOf(sent);
  return more === undefined || text.includes(more) ? text : `${text}: ${more}`;
}

function detailOf({ data }: JsonObject): string | undefined {
  const { details, message, error } = asObject(data);
  return [data, details, message, error].filter((text) => typeof text === 'string').find(Boolean);
}
