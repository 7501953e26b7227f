import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import {
  natsBus,
  type NatsConnectionLike,
  postgresLog,
  type PostgresLogOptions,
} from '../../src/task/postgres/postgres-log.ts';
import { peer } from '../peers.ts';
import { freePort, postgresMissing, startPostgres } from '../support/task/postgres.ts';
import { claimed, collect, completed, say, started } from '../task/replica-world.ts';
import { suite } from '../verifies.ts';
import { notesOf } from '../support/task/claim-notes.ts';

const nats = await peer('nats');
const program = ['nats-server', '/usr/sbin/nats-server'].find(
  (name) => spawnSync(name, ['--version']).status === 0,
);
const missing =
  postgresMissing ??
  nats.reason ??
  (program ? undefined : 'nats-server is not installed (in Debian: apt-get install nats-server)');
if (missing !== undefined) process.stderr.write(`wake-ups over NATS are not tried: ${missing}\n`);

type Connection = NatsConnectionLike & { close(): Promise<void> };

async function startNats(port: number): Promise<ChildProcess> {
  const child = spawn(program as string, ['-a', '127.0.0.1', '-p', String(port)], {
    stdio: 'ignore',
  });
  for (;;) {
    const socket = connect(port, '127.0.0.1');
    const stands = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (stands) return child;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

suite('wake-ups over NATS', missing, () => {
  test('replicas notify each other over NATS alone, and read again after a reconnect', async () => {
    await using database = await startPostgres(['-c', 'fsync=off']);
    const port = await freePort();
    let server = await startNats(port);
    const dial = (await nats.import('@nats-io/transport-node')) as {
      connect(options: object): Promise<Connection>;
    };
    const connections: Connection[] = [];
    const open = async (more: Partial<PostgresLogOptions> = {}) => {
      const servers = `127.0.0.1:${port}`;
      const options = { servers, maxReconnectAttempts: -1, reconnectTimeWait: 100 };
      const connection = await dial.connect(options);
      connections.push(connection);
      // Polling is practically switched off, so every wake-up came over NATS.
      const rare = { heartbeatMs: 600_000, pollMs: 600_000 };
      const bus = natsBus({ connection });
      return postgresLog({ connectionString: database.url, bus, ...rare, ...more });
    };
    try {
      await using one = await open();
      await using other = await open();
      const claim = await claimed(one, 't');
      await one.append(claim, 1, [started]);
      const read = collect(other.read('t', 0));
      await other.requestCancel('t');
      expect(await collect(notesOf(claim), 1)).toMatchObject([{ type: 'cancel.requested' }]);
      await one.append(claim, 3, [{ type: 'run.finished', outcome: 'canceled', text: '' }]);
      expect(await read).toHaveLength(4);

      const next = await claimed(one, 'u');
      const reading = collect(other.read('u', 0));
      server.kill('SIGKILL');
      await once(server, 'exit');
      // Published while no replica was connected.
      await one.append(next, 1, [started, say('x'), completed]);
      server = await startNats(port);
      expect(await reading).toHaveLength(4);
    } finally {
      await Promise.all(connections.map((connection) => connection.close()));
      server.kill('SIGKILL');
    }
  });
});
