import type { CallContext, Metadata } from '../../grpc/index.ts';
import { decodeHeader, encodeHeaderText } from '../../wire/encoded-header.ts';
import { callerName, pseudonym } from '../caller.ts';
import { fromRpcError } from '../../wire/json-rpc-errors.ts';

type Named = 'tools/call' | 'resources/read' | 'prompts/get';

const METHOD = 'mcp-method';
const NAME = 'mcp-name';
const CALLER = 'duolane-caller';
const MISMATCH = -32020;
/** A longer name is not mirrored: many peers take 8 KiB of metadata and no more. */
const MAX_CHARS = 2_048;

/** What a call is about, as MCP's headers say it: for those on the way, who do not read messages. */
export function routingMetadata(method: Named, name: string): Metadata {
  const text = encodeHeaderText(name);
  return { [METHOD]: method, ...(text.length <= MAX_CHARS && { [NAME]: text }) };
}

/**
 * Throws -32020 where the metadata is there and says something else than the message: somebody on
 * the way may have decided by it.
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
      message: `Header mismatch: the metadata ${wrong} is not as in the message`,
    });
}

/** For which caller of one dialled connection a call is: connections come and go. */
export const callerMetadata = (dialled: string, caller: string | undefined): Metadata => ({
  [CALLER]: pseudonym(`${dialled} ${caller ?? ''}`),
});

/** Whose call it is: a client of ours says so, any other is its connection. */
export const callerOf = ({ metadata, peer }: CallContext): string =>
  `grpc/${callerName(metadata[CALLER]) ?? `#${peer}`}`;
