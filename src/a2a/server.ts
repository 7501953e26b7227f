import { agentCard, cardResponse, type AgentDescription } from './card.ts';
import { serveJsonRpc } from './json-rpc.ts';
import { Operations, type OperationsOptions } from './operations.ts';

export interface A2AServerOptions extends OperationsOptions {
  readonly description: AgentDescription;
  /** Where callers reach this agent; it stands in the card. */
  readonly url: string;
  /** A comment line goes out on a stream that was silent for so long. */
  readonly heartbeatMs?: number;
  readonly maxBodyBytes?: number;
  /** `pure`: the card has only the members of 1.0. */
  readonly card?: 'hybrid' | 'pure';
  readonly onError?: (error: unknown) => void;
}

export interface A2AServer {
  /** The JSON-RPC binding of 0.3 and 1.0. `owner` is who asks; tasks of others do not exist for them. */
  rpc(request: Request, owner?: string): Promise<Response>;
  card(request: Request): Response;
}

/** An agent behind A2A, as plain functions of a web request: mount them wherever you serve. */
export function a2aServer({
  description,
  url,
  heartbeatMs = 15_000,
  maxBodyBytes = 16 * 1024 * 1024,
  card = 'hybrid',
  onError = () => {},
  ...options
}: A2AServerOptions): A2AServer {
  const operations = new Operations(options);
  const since = new Date();
  return {
    rpc: (request, owner) =>
      serveJsonRpc(request, owner, { operations, heartbeatMs, maxBodyBytes, onError }),
    card: (request) => {
      const pure = card === 'pure' || request.headers.get('a2a-version')?.startsWith('1.') === true;
      return cardResponse(agentCard(description, url, { hybrid: !pure }), request, since);
    },
  };
}
