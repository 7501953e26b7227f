import { DuolaneError } from '../../errors.ts';
import {
  type CallContext,
  type GrpcListening,
  listenGrpc,
  type ListenGrpcOptions,
  type GrpcRoute,
  serverStream,
  standardRoutes,
  unary,
} from '../../grpc/index.ts';
import type { JsonObject } from '../../json.ts';
import {
  begin,
  streamEndReason,
  isStream,
  toA2AError,
  type Begins,
  type Begun,
  type ServerContext,
  type OperationCall,
} from '../server/begin-call.ts';
import { RESUME_EXTENSION } from '../protocol/agent-card.ts';
import type { Dialect, Operation, Result } from '../protocol/dialect.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import {
  parseVersion,
  readExtensions,
  readLastEventId,
  type HeaderFields,
} from '../server/read-request.ts';
import { bindingOf, type A2AServer } from '../server/a2a-server.ts';
import { grpcMethods, SERVICES, type JsonMethod } from './codec.ts';
import { DIALECT_03_GRPC, DIALECT_10_GRPC, withEventId } from './grpc-dialects.ts';
import { toGrpcStatus } from './status.ts';

/** The agent that a request is for, and the tenant that it is for there. */
export interface FoundAgent {
  readonly server: A2AServer;
  readonly tenant?: string | undefined;
}

/** Finds the agent by the tenant that the caller named, which 0.3 cannot. */
export type FindAgent = (tenant: string | undefined) => FoundAgent;

/**
 * Serves an agent over gRPC until it is disposed: the services of 1.0 and 0.3, with the operations
 * of `server.handle`, beside health and reflection. Who asks is what `authorize` gives, a string;
 * without one there is one owner, anybody. Several agents share a port by tenant: then give a
 * function that finds them.
 */
export const listenA2A = (
  agent: A2AServer | FindAgent,
  options: ListenGrpcOptions = {},
): Promise<GrpcListening> =>
  listenGrpc([...routesOf(agent), ...standardRoutes(Object.values(SERVICES), options)], options);

function routesOf(agent: A2AServer | FindAgent): readonly GrpcRoute[] {
  const find: FindAgent =
    typeof agent === 'function' ? agent : (tenant) => ({ server: agent, tenant });
  return [DIALECT_10_GRPC, DIALECT_03_GRPC].flatMap((dialect) =>
    grpcMethods(dialect.version).map(([operation, method]) => {
      const served = { operation, dialect, find };
      return isStream(operation) ? streaming(method, served) : answering(method, served);
    }),
  );
}

interface ServedMethod {
  readonly operation: Operation;
  readonly dialect: Dialect;
  readonly find: FindAgent;
}

const answering = (method: JsonMethod, served: ServedMethod): GrpcRoute =>
  unary(method, async (request, context) => {
    const { result } = await enter(served, request, context);
    return served.dialect.encode(result as Result) as JsonObject;
  });

const streaming = (method: JsonMethod, served: ServedMethod): GrpcRoute =>
  serverStream(method, async function* (request, context) {
    const { result, agreed, binding } = await enter(served, request, context);
    const { events, place } = result as Begins;
    const numbered = agreed.includes(RESUME_EXTENSION);
    try {
      for await (const { id, out, last } of events) {
        const event = served.dialect.encodeEvent(out, last) as JsonObject;
        yield numbered ? withEventId(event, id) : event;
      }
    } catch (error) {
      const why = streamEndReason(error, place, binding.onError);
      if (why === 'server left') throw new DuolaneError('interrupted', 'the server goes away');
      if (why) throw toGrpcStatus(why);
    } finally {
      place.release();
    }
  });

/** Begins a call, and says in the header what was agreed; a refusal is thrown as its status. */
async function enter(
  { operation, dialect, find }: ServedMethod,
  { tenant: given, ...params }: JsonObject,
  context: CallContext,
): Promise<Begun & { readonly binding: ServerContext }> {
  const { server, tenant } = find(textOf(given));
  const binding = bindingOf(server);
  try {
    const begun = await begin(readCall(operation, dialect, params, tenant, context), binding);
    if (begun.agreed.length > 0) context.setHeader({ 'a2a-extensions': begun.agreed.join(', ') });
    return { ...begun, binding };
  } catch (error) {
    throw toGrpcStatus(toA2AError(error, binding.onError));
  }
}

function readCall(
  operation: Operation,
  dialect: Dialect,
  params: JsonObject,
  tenant: string | undefined,
  context: CallContext,
): OperationCall {
  const fields: HeaderFields = { get: (name) => textOf(context.metadata[name]) ?? null };
  const asked = parseVersion(fields.get('a2a-version'));
  if (asked !== undefined && asked !== dialect.version)
    throw new A2AError(
      'VERSION_NOT_SUPPORTED',
      `this service speaks A2A ${dialect.version}; that of ${asked} is another`,
    );
  const owner = textOf(context.principal);
  return {
    operation,
    dialect,
    params,
    caller: { ...(owner !== undefined && { owner }), ...(tenant !== undefined && { tenant }) },
    lastEventId: readLastEventId(fields, params),
    extensions: readExtensions(fields),
    leaving: context,
  };
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;
