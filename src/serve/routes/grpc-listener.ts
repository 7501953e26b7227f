import { DuolaneError } from '../../errors.ts';
import { listenA2A, type FindAgent } from '../../a2a/grpc/index.ts';
import { GrpcStatus, STATUS, type CallContext, type GrpcListening } from '../../grpc/index.ts';
import type { MountedAgents } from './mount-agents.ts';
import type { Guard } from '../auth/guard.ts';
import { byteLimits, type ServerLimits } from '../server-limits.ts';
import { omitUndefined } from '../../json.ts';
import type { GrpcOptions, ServeOptions } from '../types.ts';

/** Health and reflection need no credentials, like the card and `/healthz`. */
const OPEN = /^\/grpc\.(health|reflection)\./;

/**
 * Opens the gRPC listener of a server, with the same guard. `agents` is undefined while they start.
 */
export function listenAgents(
  host: string,
  { grpc = {}, a2a, logger }: ServeOptions,
  limits: ServerLimits,
  guard: Guard,
  agents: () => MountedAgents | undefined,
): Promise<GrpcListening> {
  const find: FindAgent = (tenant) => {
    const found = agents()?.byTenant(tenant);
    if (found) return found;
    throw new DuolaneError(
      'interrupted',
      'cannot call an agent: the server is starting; try again',
    );
  };
  return listenA2A(find, {
    host,
    ...omitUndefined<Pick<GrpcOptions, 'port' | 'tls'>>({ port: grpc.port, tls: grpc.tls }),
    maxMessageBytes: a2a?.maxBodyBytes ?? limits.maxBodyBytes,
    maxConnections: limits.maxConnections,
    maxCalls: limits.maxCalls,
    maxWatches: limits.maxWatches,
    stallMs: limits.stallMs,
    ...byteLimits(limits),
    messageMs: limits.requestMs,
    authorize: (call) => ownerOf(call, host, guard),
    onError: (error) => logger?.error('a gRPC call failed', { error: String(error) }),
  });
}

/**
 * The owner of a call, decided by the guard of the HTTP listener; its refusal becomes a gRPC
 * status.
 */
async function ownerOf(call: CallContext, host: string, guard: Guard): Promise<string | undefined> {
  const headers = new Headers();
  for (const [name, value] of Object.entries(call.metadata))
    if (typeof value === 'string') headers.set(name, value);
  const name = host.includes(':') ? `[${host}]` : host;
  const request = new Request(new URL(call.path, `http://${name}`), { method: 'POST', headers });
  const { owner, until, response } = await guard(request, { open: OPEN.test(call.path) });
  if (!response) {
    if (until !== undefined) call.expireAt(until);
    return owner;
  }
  const text = (await response.text()).trim();
  const challenge = response.headers.get('www-authenticate');
  const trailers = challenge === null ? {} : { 'www-authenticate': challenge };
  const cause = new GrpcStatus(STATUS_OF[response.status] ?? STATUS.unknown, text, trailers);
  throw new DuolaneError('unauthorized', text, { cause });
}

const STATUS_OF: Readonly<Record<number, number>> = {
  401: STATUS.unauthenticated,
  403: STATUS.permissionDenied,
  503: STATUS.unavailable,
};
