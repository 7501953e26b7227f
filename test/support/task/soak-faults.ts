import type { Postgres } from './postgres.ts';
import { Replica, type ReplicaOptions } from './replicas.ts';
import type { TcpProxy } from '../tcp-proxy.ts';

export const HEARTBEAT_MS = 1500;

/** A replica with the network between it and the database; none while it is replaced. */
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

/** Makes its trouble somewhere, and resolves when it is over. */
export type Fault = (scene: Scene) => Promise<void>;

/** What may go wrong, each as often as it stands here. */
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

/** As whoever runs replicas does: one that cannot start now, since the machine is too busy, is tried again. */
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

/** Sometimes less than a claim lives, which is three heartbeats, sometimes more. */
const aWhile = (): Promise<void> => pause(Math.random() * 6 * HEARTBEAT_MS);
