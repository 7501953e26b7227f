import { isObject, type JsonObject } from '../../../json.ts';
import { settledWithin } from '../../../stream/abort.ts';
import type { SourceListenOptions, SourceChange } from '../../types.ts';
import type { McpClient } from './mcp-client.ts';
import { ChangeSubscription } from './subscription.ts';

/** How long the end of a listener waits for the server to unsubscribe. */
const UNSUBSCRIBE_MS = 1_000;

type Listen = (options?: SourceListenOptions) => AsyncIterable<SourceChange>;

/** Changes how many listeners want a resource. Returns how many there are now. */
function count(listeners: Map<string, number>, uri: string, by: number): number {
  const now = (listeners.get(uri) ?? 0) + by;
  if (now > 0) listeners.set(uri, now);
  else listeners.delete(uri);
  return now;
}

/** Returns the `listen` of a connection, by its protocol and the capabilities of its server. */
export function listenerOf(client: McpClient, capabilities: JsonObject): Listen {
  const listens = client.envelope ? stateless(client) : inSession(client, capabilities);
  const wanted = new Map<string, number>();
  return async function* (options = {}) {
    const own = new Set(options.resources);
    for (const uri of own) count(wanted, uri, 1);
    try {
      for await (const change of listens(options)) {
        const { type, uri = '' } = change;
        // A change that no listener asked for is for all; one that another listener asked for is
        // not.
        if (type !== 'resource' || own.has(uri) || !wanted.has(uri)) yield change;
      }
    } finally {
      for (const uri of own) count(wanted, uri, -1);
    }
  };
}

/**
 * The stateless protocol: one request for all listeners of the lists, and one for each listener of
 * single resources.
 */
function stateless(client: McpClient): Listen {
  const lists = new ChangeSubscription(client);
  return (options = {}) =>
    options.resources && options.resources.length > 0
      ? new ChangeSubscription(client, options.resources).listen(options)
      : lists.listen(options);
}

/**
 * The session protocol: changes arrive by themselves; single resources are subscribed for their
 * first listener and unsubscribed after the last.
 */
function inSession(client: McpClient, { resources }: JsonObject): Listen {
  const can = isObject(resources) && resources['subscribe'] === true;
  const users = new Map<string, number>();
  return async function* (options = {}) {
    const uris = can ? [...new Set(options.resources)] : [];
    const signal = options.signal ? { signal: options.signal } : {};
    const entered: string[] = [];
    try {
      for await (const change of client.changes.listen(options)) {
        // Subscribe after the feed listens, so that no change is missed in between.
        if (change.type === 'listening')
          for (const uri of uris) {
            entered.push(uri);
            if (count(users, uri, 1) === 1)
              await client.request('resources/subscribe', { uri }, signal);
          }
        yield change;
      }
    } finally {
      for (const uri of entered)
        // A server that cannot be reached has dropped the subscription with the connection.
        if (count(users, uri, -1) === 0)
          await settledWithin(client.request('resources/unsubscribe', { uri }), UNSUBSCRIBE_MS);
    }
  };
}
