import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { create, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { file_grpc_health_v1_health } from '../../../src/grpc/gen/grpc/health/v1/health_pb.ts';
import type { JsonObject } from '../../../src/json.ts';
import { file_mcp_stream_v1_mcp } from '../../../src/mcp/grpc/gen/mcp/stream/v1/mcp_pb.ts';

const SCRIPT = fileURLToPath(new URL('../../fixtures/grpc-peer.py', import.meta.url));

/** A Python with grpcio: Debian's may have it even if another Python comes first in the PATH. */
const python = ['python3', '/usr/bin/python3'].find((command) => {
  try {
    execFileSync(command, ['-c', 'import grpc, google.protobuf'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
});

/** Why the peer is missing; `undefined` if it is available. */
export const missing: string | undefined =
  python === undefined
    ? 'no python3 has grpcio; apt-get install -y python3-grpcio python3-protobuf'
    : undefined;

if (missing) process.stderr.write(`${missing}\n`);

/** The result of a call by grpcio. */
export interface PythonCall {
  readonly messages: readonly JsonObject[];
  /** The name of the status. */
  readonly code: string;
  readonly details: string;
  readonly trailers: Readonly<Record<string, string>>;
}

export interface Python extends AsyncDisposable {
  /** The next line of its output. */
  heard(): Promise<unknown>;
  say(value: JsonObject): void;
}

/** `test/fixtures/grpc-peer.py`, with the descriptors that our own code is generated from. */
function start(...args: string[]): Python {
  const file = [file_mcp_stream_v1_mcp.proto, file_grpc_health_v1_health.proto];
  const descriptors = toBinary(FileDescriptorSetSchema, create(FileDescriptorSetSchema, { file }));
  const child = spawn(python!, [SCRIPT, ...args], {
    env: {
      PATH: process.env['PATH'],
      DESCRIPTORS: Buffer.from(descriptors).toString('base64'),
      // Nothing on loopback goes through a proxy.
      no_proxy: '*',
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  return {
    async heard() {
      const { done, value } = await lines.next();
      if (done) throw new Error('the Python process has ended; its error is above');
      return JSON.parse(value);
    },
    say: (value) => child.stdin.write(`${JSON.stringify(value)}\n`),
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      await exited;
    },
  };
}

/** grpcio as the client of `url`. */
export function pythonClient(url: string): AsyncDisposable & {
  call(path: string, requests: readonly JsonObject[], options?: JsonObject): Promise<PythonCall>;
} {
  const peer = start('call', new URL(url).host);
  return {
    async call(path, requests, options = {}) {
      peer.say({ path, requests, ...options });
      return (await peer.heard()) as PythonCall;
    },
    [Symbol.asyncDispose]: () => peer[Symbol.asyncDispose](),
  };
}

/** A small server of grpcio: its tools are `echo`, `wait`, `late`, and any other fails. */
export async function pythonServer(): Promise<Python & { readonly url: string }> {
  const peer = start('serve');
  return { ...peer, url: `grpc://127.0.0.1:${Number(await peer.heard())}` };
}
