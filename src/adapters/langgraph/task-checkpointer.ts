import { createHash } from 'node:crypto';
import type { AgentStorage } from '../../event/types.ts';
import { asObject, asString, type JsonObject } from '../../json.ts';

/** The part of a checkpointer of LangGraph.js, such as `MemorySaver`, that the adapter uses. */
export interface CheckpointSaver {
  readonly serde: {
    dumpsTyped(value: unknown): PromiseLike<readonly [type: string, data: Uint8Array]>;
    loadsTyped(type: string, data: Uint8Array): PromiseLike<unknown>;
  };
}

/** A value as the serializer of LangGraph writes it. */
type Dumped = readonly [type: string, data: string];

interface StoredCheckpoint {
  readonly id: string;
  readonly namespace: string;
  readonly checkpoint: Dumped;
  readonly metadata: Dumped;
  readonly parent?: string;
  /** `messageId` of the turn whose run has written it. */
  readonly turn: string;
}

type StoredWrite = readonly [task: string, channel: string, value: Dumped];

/** Channels of which a task has one write, which a later one replaces. */
const SPECIAL = new Set(['__error__', '__scheduled__', '__interrupt__', '__resume__']);
const CHECKPOINTS = 'langgraph/checkpoint/';
const WRITES = 'langgraph/write/';

/** Checkpoints of a graph in the storage of a task. */
export interface TaskCheckpointer {
  /** The checkpointer for the config of the graph. */
  readonly saver: object;
  /** Whether the task has any checkpoint of the graph. */
  readonly hasAny: boolean;
  /** The turn whose run wrote the last checkpoint. */
  readonly turn: string | undefined;
  /** Resolves when everything that the graph has given to the checkpointer is durable. */
  readonly stored: () => Promise<void>;
}

/**
 * Opens the checkpointer of a task: it keeps the checkpoints of the graph in the task log, so that
 * any process continues the graph where it was. All of them are read once; each write is durable
 * before the graph goes on. Of `base`, only the serializer and the members are used that do not
 * store anything. `beforeWrite` resolves when readers have seen what the graph did before a write.
 */
export async function openTaskCheckpointer(
  base: CheckpointSaver,
  storage: AgentStorage,
  turn: string,
  beforeWrite: () => Promise<void>,
): Promise<TaskCheckpointer> {
  const records = new CheckpointRecords(base, storage, turn, beforeWrite);
  await records.load();
  const saver: object = Object.create(base, {
    getTuple: { value: (config: unknown) => records.getTuple(config) },
    list: { value: (config: unknown, options: unknown) => records.list(config, options) },
    put: {
      value: (config: unknown, checkpoint: unknown, metadata: unknown) =>
        records.writing(records.put(config, checkpoint, metadata)),
    },
    putWrites: {
      value: (config: unknown, writes: readonly [string, unknown][], task: string) =>
        records.writing(records.putWrites(config, writes, task)),
    },
    deleteThread: { value: () => records.deleteAll() },
    // That of `MemorySaver` reads its own memory.
    getDeltaChannelHistory: {
      value: Reflect.get(
        Object.getPrototypeOf(Object.getPrototypeOf(base)) as object,
        'getDeltaChannelHistory',
      ) as unknown,
    },
  }) as object;
  const last = records.latest('');
  const stored = (): Promise<void> => records.stored();
  return { saver, hasAny: last !== undefined, turn: last?.turn, stored };
}

class CheckpointRecords {
  readonly #serde: CheckpointSaver['serde'];
  readonly #storage: AgentStorage;
  readonly #turn: string;
  readonly #beforeWrite: () => Promise<void>;
  /** Writes that are not durable yet. */
  readonly #writing = new Set<Promise<unknown>>();
  readonly #checkpoints = new Map<string, StoredCheckpoint>();
  readonly #writes = new Map<string, StoredWrite>();

  constructor(
    { serde }: CheckpointSaver,
    storage: AgentStorage,
    turn: string,
    beforeWrite: () => Promise<void>,
  ) {
    this.#serde = serde;
    this.#storage = storage;
    this.#turn = turn;
    this.#beforeWrite = beforeWrite;
  }

  async stored(): Promise<void> {
    await Promise.all(this.#writing);
  }

  /** Counts a write as not durable until its promise settles. */
  async writing<T>(write: Promise<T>): Promise<T> {
    this.#writing.add(write);
    try {
      return await write;
    } finally {
      this.#writing.delete(write);
    }
  }

  async #set(values: Readonly<Record<string, unknown>>): Promise<void> {
    await this.#beforeWrite();
    await this.#storage.set(values);
  }

  async load(): Promise<void> {
    for await (const [key, value] of this.#storage.list(CHECKPOINTS))
      this.#checkpoints.set(key, value as StoredCheckpoint);
    for await (const [key, value] of this.#storage.list(WRITES))
      this.#writes.set(key, value as StoredWrite);
  }

  latest(namespace: string): StoredCheckpoint | undefined {
    return this.#of(namespace)[0];
  }

  async getTuple(config: unknown): Promise<JsonObject | undefined> {
    const { namespace, id } = positionOf(config);
    const found = id ? this.#checkpoints.get(keyOf(namespace, id)) : this.latest(namespace);
    return found && this.#tuple(found);
  }

  async *list(config: unknown, options: unknown): AsyncGenerator<JsonObject, void, undefined> {
    const { namespace, id } = positionOf(config);
    const { before, limit = Infinity, filter } = asObject(options);
    const end = positionOf(before).id;
    let room = limit as number;
    for (const record of this.#of(namespace)) {
      if ((id && record.id !== id) || (end && record.id >= end)) continue;
      const tuple = await this.#tuple(record);
      const metadata = asObject(tuple['metadata']);
      if (Object.entries(asObject(filter)).some(([name, value]) => metadata[name] !== value))
        continue;
      if (room-- <= 0) return;
      yield tuple;
    }
  }

  async put(config: unknown, checkpoint: unknown, metadata: unknown): Promise<JsonObject> {
    const { namespace, id: parent } = positionOf(config);
    const id = asString(asObject(checkpoint)['id']);
    const record: StoredCheckpoint = {
      id,
      namespace,
      checkpoint: await this.#dump(checkpoint),
      metadata: await this.#dump(metadata),
      ...(parent && { parent }),
      turn: this.#turn,
    };
    const key = keyOf(namespace, id);
    await this.#set({ [key]: record });
    this.#checkpoints.set(key, record);
    return configOf(config, namespace, id);
  }

  async putWrites(
    config: unknown,
    writes: readonly [channel: string, value: unknown][],
    task: string,
  ): Promise<void> {
    const { namespace, id = '' } = positionOf(config);
    const changes: Record<string, StoredWrite> = {};
    for (const [index, [channel, value]] of writes.entries()) {
      const isSpecial = SPECIAL.has(channel);
      const key = `${writesOf(namespace, id)}${hash(task)}/${isSpecial ? channel : index}`;
      if (isSpecial || !this.#writes.has(key))
        changes[key] = [task, channel, await this.#dump(value)];
    }
    await this.#set(changes);
    for (const [key, write] of Object.entries(changes)) this.#writes.set(key, write);
  }

  async deleteAll(): Promise<void> {
    const keys = [...this.#checkpoints.keys(), ...this.#writes.keys()];
    await this.#storage.set(Object.fromEntries(keys.map((key) => [key, undefined])));
    this.#checkpoints.clear();
    this.#writes.clear();
  }

  /** The checkpoints of a namespace, newest first: their ids grow with time. */
  #of(namespace: string): readonly StoredCheckpoint[] {
    return [...this.#checkpoints.values()]
      .filter((record) => record.namespace === namespace)
      .sort((one, other) => (one.id < other.id ? 1 : -1));
  }

  async #tuple(record: StoredCheckpoint): Promise<JsonObject> {
    const { id, namespace, parent } = record;
    const prefix = writesOf(namespace, id);
    const writes = [...this.#writes].filter(([key]) => key.startsWith(prefix));
    const config = { configurable: { thread_id: THREAD, checkpoint_ns: namespace } };
    return {
      config: configOf(config, namespace, id),
      checkpoint: await this.#load(record.checkpoint),
      metadata: await this.#load(record.metadata),
      pendingWrites: await Promise.all(
        writes.map(async ([, [task, channel, value]]) => [task, channel, await this.#load(value)]),
      ),
      ...(parent && { parentConfig: configOf(config, namespace, parent) }),
    };
  }

  async #dump(value: unknown): Promise<Dumped> {
    const [type, data] = await this.#serde.dumpsTyped(value);
    return [type, Buffer.from(data).toString(encodingOf(type))];
  }

  async #load([type, data]: Dumped): Promise<unknown> {
    return this.#serde.loadsTyped(type, new Uint8Array(Buffer.from(data, encodingOf(type))));
  }
}

/** The thread of the graph: a task has one. */
export const THREAD = 'task';

const encodingOf = (type: string): 'utf8' | 'base64' => (type === 'json' ? 'utf8' : 'base64');

const hash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 32);

/** A namespace has the names of nodes, and may be long. */
const keyOf = (namespace: string, id: string): string => `${CHECKPOINTS}${hash(namespace)}/${id}`;
const writesOf = (namespace: string, id: string): string => `${WRITES}${hash(namespace)}/${id}/`;

function positionOf(config: unknown): { readonly namespace: string; readonly id?: string } {
  const { checkpoint_ns: namespace, checkpoint_id: id } = asObject(
    asObject(config)['configurable'],
  );
  return { namespace: asString(namespace), ...(typeof id === 'string' && id !== '' && { id }) };
}

const configOf = (config: unknown, namespace: string, id: string): JsonObject => ({
  configurable: {
    thread_id: asObject(asObject(config)['configurable'])['thread_id'],
    checkpoint_ns: namespace,
    checkpoint_id: id,
  },
});
