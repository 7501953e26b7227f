import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { dialHttp, type DialMessagesOptions, dialSse, type ToolSource } from '../../mcp/index.ts';
import { dialTransport } from '../../mcp/json-rpc/stdio.ts';
import { buildEnv, spawnProcess } from '../../process/index.ts';
import type { Abortable } from '../../stream/types.ts';

/** What a source may be, for the help. */
export const SOURCES: string =
  'an MCP server: stdio:<command line>, http(s)://… for Streamable HTTP, sse://…\n' +
  '(sses://… with TLS) for the transport before it, or grpc://host:port (grpcs://… with TLS)';

export interface SourceOptions extends Abortable {
  readonly token: string | undefined;
  /** What the server may ask of us in a call: it becomes an `input` event. */
  readonly capabilities?: JsonObject;
  /** Whether all who call through it are one person. */
  readonly singleUser?: boolean;
}

/** Dials what a person named; `invalid` if it is none of these. */
export async function dialSource(
  given: string,
  { token, signal, capabilities, singleUser = false }: SourceOptions,
): Promise<ToolSource & AsyncDisposable> {
  const [, scheme, rest = ''] = /^(stdio|https?|sses?|grpcs?):(.+)$/s.exec(given) ?? [];
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const options = {
    ...(signal && { signal }),
    ...(capabilities && { capabilities }),
    singleUser,
  };
  switch (scheme) {
    case 'stdio':
      return dialCommand(rest, options);
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
      return dialGrpc({
        url: given,
        ...(signal && { signal }),
        ...(token !== undefined && { token }),
      });
    }
    default:
      throw new DuolaneError(
        'invalid',
        `${given} is no source: write stdio:<command line>, http://…, sse://… or grpc://…`,
      );
  }
}

async function dialCommand(
  line: string,
  options: DialMessagesOptions,
): Promise<ToolSource & AsyncDisposable> {
  const [command = '', ...args] = words(line);
  const server = spawnProcess({ command, args, env: buildEnv() });
  if (server.pid === undefined) throw (await server.exited).startError;
  return dialTransport(server, options);
}

/** A command line as its words; quotes keep blanks. */
const words = (line: string): string[] =>
  [...line.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, bare]) => double?.replace(/\\(.)/g, '$1') ?? single ?? bare ?? '',
  );
