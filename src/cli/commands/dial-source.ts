import { DuolaneError } from '../../errors.ts';
import { type JsonObject, omitUndefined } from '../../json.ts';
import {
  dialHttp,
  type DialMessagesOptions,
  dialSse,
  dialStdio,
  type ToolSource,
} from '../../mcp/index.ts';
import type { DialGrpcOptions } from '../../mcp/grpc/index.ts';
import { buildEnv } from '../../process/index.ts';
import type { Abortable } from '../../stream/types.ts';

/** The forms of a source, for the help. */
export const SOURCES: string =
  'an MCP server: stdio:<command line>, http(s)://… for Streamable HTTP, sse://…\n' +
  '(sses://… with TLS) for the older SSE transport, or grpc://host:port (grpcs://… with TLS)';

/** Options of `dialSource()`. */
export interface SourceOptions extends Abortable {
  readonly token: string | undefined;
  /** What the server may ask during a call; its questions become `input` events. */
  readonly capabilities?: JsonObject;
  /** Whether all callers are one person. */
  readonly singleUser?: boolean;
  /** The kind of protocol; the default is that of the transport. */
  readonly protocol?: DialMessagesOptions['protocol'] | undefined;
  /** How long the server may be silent during a request; without it, the default limits hold. */
  readonly timeoutMs?: number | undefined;
  /** The longest line of a server on stdio, in bytes. */
  readonly maxBytes?: number | undefined;
}

/** Parses --protocol. */
export function readProtocol(given: string | undefined): DialMessagesOptions['protocol'] {
  if (given === undefined) return undefined;
  if (given === 'auto' || given === 'session' || given === 'stateless') return given;
  throw new DuolaneError(
    'invalid',
    `invalid --protocol "${given}": expected auto, session or stateless`,
  );
}

/** Dials the source that the user named. Throws `invalid` for an unknown form. */
export async function dialSource(
  given: string,
  { token, signal, capabilities, protocol, maxBytes, singleUser = false, timeoutMs }: SourceOptions,
): Promise<ToolSource & AsyncDisposable> {
  const [, scheme, rest = ''] = /^(stdio|https?|sses?|grpcs?):(.+)$/s.exec(given) ?? [];
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const limits = { timeoutMs, maxTotalMs: timeoutMs && Infinity };
  const options = omitUndefined<DialMessagesOptions>({
    ...limits,
    signal,
    capabilities,
    protocol,
    singleUser,
  });
  switch (scheme) {
    case 'stdio':
      return dialCommand(rest, omitUndefined({ ...options, maxBytes }));
    case 'http':
    case 'https':
      return dialHttp({ url: given, headers, ...options });
    case 'sse':
    case 'sses':
      return dialSse({
        url: `${scheme === 'sse' ? 'http' : 'https'}:${rest}`,
        headers,
        ...options,
      });
    case 'grpc':
    case 'grpcs': {
      const { dialGrpc } = await import('../../mcp/grpc/index.ts');
      return dialGrpc(omitUndefined<DialGrpcOptions>({ url: given, signal, token, ...limits }));
    }
    default:
      throw new DuolaneError(
        'invalid',
        `invalid source "${given}": expected stdio:<command line>, http://…, sse://… or grpc://…`,
      );
  }
}

function dialCommand(
  line: string,
  options: DialMessagesOptions & { readonly maxBytes?: number },
): Promise<ToolSource & AsyncDisposable> {
  const [command = '', ...args] = splitCommandLine(line);
  return dialStdio({ command, args, env: buildEnv(), ...options });
}

/** Splits a command line; quotes keep spaces. */
const splitCommandLine = (line: string): string[] =>
  [...line.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, bare]) => double?.replace(/\\(.)/g, '$1') ?? single ?? bare ?? '',
  );
