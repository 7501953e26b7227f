import { randomUUID } from 'node:crypto';
import type { CallContext, Metadata } from '../../grpc/index.ts';
import { decodeHeader, encodeHeaderText } from '../../wire/encoded-header.ts';
import { callerName, pseudonym } from '../sources/caller-names.ts';
import { fromRpcError } from '../../wire/json-rpc-errors.ts';

type Named =
  | 'tools/call'
  | 'resources/read'
  | 'prompts/get'
  | 'tasks/get'
  | 'tasks/update'
  | 'tasks/cancel';

const METHOD = 'mcp-method';
const NAME = 'mcp-name';
const CALLER = 'duolane-caller';
const MISMATCH = -32020;
/** The longest name in metadata: many peers accept only 8 KiB of it. */
const MAX_CHARS = 2_048;

/**
 * Method and name of a request as metadata, as in the headers of MCP, for proxies that do not read
 * messages.
 */
export function routingMetadata(method: Named, name: string): Metadata {
  const text = encodeHeaderText(name);
  return { [METHOD]: method, ...(text.length <= MAX_CHARS && { [NAME]: text }) };
}

/**
 * Throws -32020 if the metadata is present and differs from the message: a proxy may have decided
 * by it.
 */
export function checkRoutingMetadata({ metadata }: CallContext, method: Named, name: string): void {
  const differs = (key: string, value: string): boolean => {
    const given = metadata[key];
    return given !== undefined && (typeof given !== 'string' || decodeHeader(given) !== value);
  };
  const wrong = differs(METHOD, method) ? METHOD : differs(NAME, name) ? NAME : undefined;
  if (wrong !== undefined)
    throw fromRpcError({
      code: MISMATCH,
      message: `header mismatch: the metadata ${wrong} differs from the message`,
    });
}

/** Names the caller of a call on one dialled source, whose connections may change. */
export const callerMetadata = (dialled: string, caller: string | undefined): Metadata => ({
  [CALLER]: pseudonym(`${dialled} ${caller ?? ''}`),
});

/**
 * The caller of a call: our clients send a name, for any other it is the connection. A client
 * cannot name the connection or the owner of another.
 */
export function callerOf(call: CallContext): string {
  const named = callerName(call.metadata[CALLER]);
  const name = named === undefined ? `#${call.peer}` : `=${named}`;
  return `grpc/${JSON.stringify(callOwner(call) ?? null)}/${name}`;
}

/**
 * The authenticated owner of a call: the text that the check of the offer's `token` returned. A
 * fixed token is the same for all callers and names no owner.
 */
export const callOwner = ({ principal }: CallContext): string | undefined =>
  typeof principal === 'string' && principal !== SHARED_TOKEN ? principal : undefined;

/** The principal of all callers with a fixed token; a check cannot return this text by chance. */
export const SHARED_TOKEN: string = `shared token ${randomUUID()}`;
