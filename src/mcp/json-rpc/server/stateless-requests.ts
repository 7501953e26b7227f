import { type DuolaneError, invalid } from '../../../errors.ts';
import { asObject, asStrings, isObject, type JsonObject } from '../../../json.ts';
import { onAbort } from '../../../stream/abort.ts';
import { fromRpcError } from '../../../wire/json-rpc-errors.ts';
import type { ToolSource } from '../../types.ts';
import { VERSION_ERRORS, META, metaOf, STATELESS_VERSION } from '../protocol-versions.ts';
import type { ClientState, RequestContext } from './methods.ts';
import { listenedTasks } from './task-methods.ts';

/** Methods whose results a client may cache; ours say that they are fresh only now. */
const CACHED = /\/list$|^resources\/read$|^server\/discover$/;

/** Methods of the session protocol only. */
export const SESSION_ONLY: ReadonlySet<string> = new Set([
  'initialize',
  'ping',
  'logging/setLevel',
  'resources/subscribe',
  'resources/unsubscribe',
]);

/** Methods of the stateless protocol only. */
export const STATELESS_ONLY: ReadonlySet<string> = new Set([
  'server/discover',
  'subscriptions/listen',
]);

/**
 * Whether a request uses the stateless protocol: it carries a version, or its method exists only
 * there.
 */
export const isStateless = (method: string, params: unknown): boolean =>
  metaOf(params)[META.version] !== undefined || STATELESS_ONLY.has(method);

/**
 * Reads the client information of a stateless request. Throws the error to send if it is missing or
 * invalid.
 */
export function readClient(params: JsonObject): ClientState {
  const meta = metaOf(params);
  const version = meta[META.version];
  if (typeof version !== 'string') throw lacks(META.version);
  if (version !== STATELESS_VERSION)
    throw fromRpcError({
      code: VERSION_ERRORS.unsupportedVersion,
      message: `unsupported protocol version "${version}"; use ${STATELESS_VERSION}`,
      data: { supported: [STATELESS_VERSION], requested: version },
    });
  const capabilities = meta[META.capabilities];
  if (!isObject(capabilities)) throw lacks(META.capabilities);
  const logLevel = meta[META.logLevel];
  return {
    stateless: true,
    capabilities,
    logLevel: typeof logLevel === 'string' ? logLevel : undefined,
    watch: undefined,
  };
}

const lacks = (key: string): DuolaneError => invalid(`invalid params: _meta must have ${key}`);

/** Adds the members that the stateless protocol requires in a result. */
export function complete(
  method: string,
  result: JsonObject,
  { name, version }: ToolSource['info'],
): JsonObject {
  return {
    resultType: 'complete',
    ...(CACHED.test(method) && { ttlMs: 0, cacheScope: 'private' }),
    ...result,
    _meta: { ...metaOf(result), [META.server]: { name, version } },
  };
}

const KINDS = {
  toolsListChanged: 'tools',
  resourcesListChanged: 'resources',
  promptsListChanged: 'prompts',
} as const;

/**
 * Handles `subscriptions/listen`: sends the accepted filter first, then the changes, until the
 * client disconnects.
 */
export async function serveListen(
  source: ToolSource,
  params: JsonObject,
  context: RequestContext,
): Promise<JsonObject> {
  const { id, notify } = context;
  const { signal } = context.cancellation;
  const wanted = asObject(params['notifications']);
  const tasks = await listenedTasks(source, params, context);

  const uris = new Set(asStrings(wanted['resourceSubscriptions']));
  const listens = source.listen !== undefined;
  const kinds = Object.entries(KINDS).filter(([key]) => wanted[key] === true && listens);
  const wantedTypes = new Set<string>(kinds.map(([, kind]) => kind));
  const _meta = { [META.subscription]: id };
  const acknowledge = async (): Promise<void> => {
    await notify('notifications/subscriptions/acknowledged', {
      _meta,
      notifications: {
        ...Object.fromEntries(kinds.map(([key]) => [key, true])),
        ...(uris.size > 0 && listens && { resourceSubscriptions: [...uris] }),
        ...(tasks.taskIds.length > 0 && { taskIds: tasks.taskIds }),
      },
    });
    tasks.notify();
  };
  try {
    if (!source.listen) {
      await acknowledge();
      await new Promise((_, reject) => onAbort(signal, reject));
    } else
      for await (const { type, uri } of source.listen({ signal, resources: [...uris] })) {
        if (type === 'listening') await acknowledge();
        else if (wantedTypes.has(type))
          await notify(`notifications/${type}/list_changed`, { _meta });
        else if (type === 'resource' && uri !== undefined && uris.has(uri))
          await notify('notifications/resources/updated', { _meta, uri });
      }
  } finally {
    await tasks[Symbol.asyncDispose]();
  }
  return { _meta };
}

/** The result of `server/discover`. */
export const discoverResult = (info: ToolSource['info'], capabilities: JsonObject): JsonObject => ({
  supportedVersions: [STATELESS_VERSION],
  capabilities,
  ...(info.instructions !== undefined && { instructions: info.instructions }),
});
