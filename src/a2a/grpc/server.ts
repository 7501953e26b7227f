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
import { omitUndefined, type JsonObject } from '../../json.ts';
import {
  dispatch,
  isStream,
  streamEndReason,
  toA2AError,
  type Dispatched,
  type OperationCall,
  type ServerContext,
  type TaskStream,
} from '../server/dispatch-operation.ts';
import type { Dialect, Operation, Result } from '../protocol/dialect.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import { RESUME_EXTENSION } from '../protocol/model.ts';
import { parseVersion, readCallFields, type HeaderFields } from '../server/read-request.ts';
import { serverContextOf, type A2AServer } from '../server/a2a-server.ts';
import { grpcMethods, SERVICES, type JsonMethod } from './codec.ts';
import { DIALECT_03_GRPC, DIALECT_10_GRPC, withEventId } from './grpc-dialects.ts';
import { toGrpcStatus } from './status.ts';

/** The agent that a request is for, and the tenant within that agent. */
export interface FoundAgent {
  readonly server: A2AServer;
  readonly tenant?: string | undefined;
}

/** Finds the agent of a tenant; undefined for a caller that named none, such as any of 0.3. */
export type FindAgent = (tenant: string | undefined) => FoundAgent;

/**
 * Serves an agent over gRPC until it is disposed: the services of 1.0 and 0.3 with the operations
 * of `server.handle`, and health and reflection. `authorize` returns the owner of a call as a
 * string; without it all callers are the same owner. To serve several agents on one port by tenant,
 * pass a function that finds them.
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

// The handlers are no async functions: those would keep the request in memory while they wait.
const answering = (method: JsonMethod, served: ServedMethod): GrpcRoute =>
  unary(method, (request, context) =>
    dispatchCall(served, request, context).then(
      ({ outcome }) => served.dialect.encode(outcome as Result) as JsonObject,
    ),
  );

const streaming = (method: JsonMethod, served: ServedMethod): GrpcRoute =>
  serverStream(method, (request, context) =>
    eventsOf(dispatchCall(served, request, context), served.dialect),
  );

type DispatchedCall = Dispatched & { readonly binding: ServerContext };

async function* eventsOf(
  dispatched: Promise<DispatchedCall>,
  dialect: Dialect,
): AsyncGenerator<JsonObject, void, undefined> {
  const { outcome, agreed, binding } = await dispatched;
  const { batches, slot } = outcome as TaskStream;
  const withIds = agreed.includes(RESUME_EXTENSION);
  try {
    for await (const batch of batches)
      for (const { id, out, last } of batch) {
        const event = dialect.encodeEvent(out, last) as JsonObject;
        yield withIds ? withEventId(event, id) : event;
      }
  } catch (error) {
    const reason = streamEndReason(error, slot, binding.onError);
    if (reason === 'drain')
      throw new DuolaneError('interrupted', 'the server is shutting down; reconnect to resume');
    if (reason) throw toGrpcStatus(reason);
  } finally {
    slot.release();
  }
}

/**
 * Dispatches a call, sets the header with the agreed extensions, and throws errors as a gRPC
 * status.
 */
function dispatchCall(
  { operation, dialect, find }: ServedMethod,
  { tenant: given, ...params }: JsonObject,
  context: CallContext,
): Promise<DispatchedCall> {
  const { server, tenant } = find(textOf(given));
  const binding = serverContextOf(server);
  const failed = (error: unknown): never => {
    throw toGrpcStatus(toA2AError(error, binding.onError));
  };
  let dispatched;
  try {
    dispatched = dispatch(readCall(operation, dialect, params, tenant, context), binding);
  } catch (error) {
    return failed(error);
  }
  return dispatched.then(({ agreed, outcome }) => {
    if (agreed.length > 0) context.setHeader({ 'a2a-extensions': agreed.join(', ') });
    return { agreed, outcome, binding };
  }, failed);
}

function readCall(
  operation: Operation,
  dialect: Dialect,
  params: JsonObject,
  tenant: string | undefined,
  context: CallContext,
): OperationCall {
  const fields: HeaderFields = { get: (name) => textOf(context.metadata[name]) ?? null };
  const requested = parseVersion(fields.get('a2a-version'));
  if (requested !== undefined && requested !== dialect.version)
    throw new A2AError(
      'VERSION_NOT_SUPPORTED',
      `this gRPC service is A2A ${dialect.version}; use the service of A2A ${requested}`,
    );
  const owner = textOf(context.principal);
  return {
    operation,
    dialect,
    params,
    caller: omitUndefined({ owner, tenant }),
    ...readCallFields(fields, params),
    disconnect: context,
  };
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;
