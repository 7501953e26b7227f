import type { Postgres } from './postgres.ts';
import { Replica, type ReplicaOptions } from './replicas.ts';
import type { TcpProxy } from '../tcp-proxy.ts';

export const HEARTBEAT_MS = 1500;

/** A replica and the network between it and the database; undefined while it is replaced. */
export interface Node {
  readonly proxy: TcpProxy;
  readonly settings: ReplicaOptions;
  replica: Replica | undefined;
}

export interface Scene {
  readonly nodes: readonly Node[];
  readonly database: Pick<Postgres, 'crash' | 'start'>;
}

export type FaultName = 'kills' | 'stops' | 'cuts' | 'stalls' | 'restarts' | 'crashes';

/** Causes a fault, and resolves when it is over. */
export type Fault = (scene: Scene) => Promise<void>;

/** The faults; a fault that is listed twice is chosen twice as often. */
export const FAULTS: readonly (readonly [FaultName, Fault])[] = [
  ['kills', replaced('SIGKILL')],
  ['kills', replaced('SIGKILL')],
  ['restarts', replaced('SIGTERM')],
  ['stops', stopped],
  ['cuts', away('cut')],
  ['cuts', away('cut')],
  ['stalls', away('stall')],
  ['crashes', crashed],
];

function replaced(signal: 'SIGKILL' | 'SIGTERM'): Fault {
  return async ({ nodes }) => {
    const [node, replica] = anyOf(nodes);
    node.replica = undefined;
    replica.signal(signal);
    await replica.exited;
    await begin(node);
  };
}

async function stopped({ nodes }: Scene): Promise<void> {
  const [, replica] = anyOf(nodes);
  replica.signal('SIGSTOP');
  await aWhile();
  replica.signal('SIGCONT');
}

function away(how: 'cut' | 'stall'): Fault {
  return async ({ nodes }) => {
    const [{ proxy }] = anyOf(nodes);
    proxy[how]();
    await aWhile();
    proxy.mend();
  };
}

async function crashed({ database }: Scene): Promise<void> {
  await database.crash();
  await pause(Math.random() * 2 * HEARTBEAT_MS);
  await database.start();
}

/** Starts a replica, and retries if the machine is too busy to start it in time. */
export async function begin(node: Node): Promise<void> {
  for (let tries = 1; node.replica === undefined; tries++) {
    try {
      node.replica = await Replica.start(node.settings);
    } catch (error) {
      if (tries === 30) throw error;
    }
  }
}

export const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms));

export function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

const anyOf = (nodes: readonly Node[]): readonly [Node, Replica] => {
  const [node] = shuffled(nodes) as [Node];
  return [node, node.replica as Replica];
};

/** A duration that is sometimes shorter and sometimes longer than a lease (three heartbeats). */
const aWhile = (): Promise<void> => pause(Math.random() * 6 * HEARTBEAT_MS);
