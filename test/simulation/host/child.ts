import { EventEmitter } from 'node:events';
import { Readable, Writable } from 'node:stream';
import type { SpawnedProcess } from '../../../src/host/launch/custom-process.ts';
import type { Random } from '../random.ts';
import type { Machine, World } from '../world.ts';

type Done = (error?: Error | null) => void;

const broken = (): Error => Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });

/**
 * A child process in the world: real streams of Node on the side of the host, a machine on the
 * other. Bytes arrive later, in order, and cut into any pieces.
 */
export class Child extends EventEmitter implements SpawnedProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  exitCode: number | null = null;
  hasExited = false;
  exitedAt: number = Infinity;
  /** Called when it has exited, however. */
  onExit: () => void = () => {};
  /** Called on the machine of the child. */
  onInput: (chunk: Buffer) => void = () => {};
  onInputEnd: () => void = () => {};
  ignoresTerm = false;
  readonly #world: World;
  readonly #host: Machine;
  readonly machine: Machine;
  readonly #random: Random;
  readonly #writes = new Set<Done>();
  #isDeaf = false;
  #lastIn = 0;
  #lastOut = 0;

  constructor(world: World, host: Machine, name = 'cli') {
    super();
    this.#world = world;
    this.#host = host;
    this.machine = world.machine(name);
    this.#random = world.random('pipes');
    this.stdin = new Writable({
      write: (chunk: Buffer, _, done) => this.#write(chunk, done),
      final: (done) => this.#write(undefined, done),
    });
    this.stdout = new Readable({ read() {} });
  }

  #delay(): number {
    return 0.02 + this.#random.next() ** 4 * 10;
  }

  #write(chunk: Buffer | undefined, done: Done): void {
    const world = this.#world;
    let isOpen = true;
    const settle: Done = (error) => {
      if (!isOpen) return;
      isOpen = false;
      this.#writes.delete(settle);
      done(error);
    };
    this.#writes.add(settle);
    if (this.hasExited || this.#isDeaf) return this.#breakWrites();
    this.#lastIn = Math.max(this.#lastIn, world.now + this.#delay());
    const label = chunk ? `stdin ${chunk.length}` : 'stdin ends';
    world.at(this.#lastIn, this.machine, label, () => {
      if (this.#isDeaf) return;
      if (chunk) this.onInput(chunk);
      else this.onInputEnd();
      world.after(0, this.#host, 'written', () => settle());
    });
  }

  #breakWrites(): void {
    this.#world.after(this.#delay(), this.#host, 'EPIPE', () => {
      for (const settle of this.#writes) settle(broken());
    });
  }

  /** Another machine was killed: if it is the one of the host, the input ends. */
  lose(machine: Machine): void {
    if (machine !== this.#host || this.hasExited) return;
    this.#world.after(this.#delay(), this.machine, 'stdin ends', () => this.onInputEnd());
  }

  /** The child closes its stdin. */
  deafen(): void {
    this.#isDeaf = true;
    this.#breakWrites();
  }

  /** Writes a text, which arrives in pieces. */
  say(text: string): void {
    if (this.hasExited) return;
    const bytes = Buffer.from(text);
    const cut = this.#random.chance(0.3) ? this.#random.int(1, bytes.length) : bytes.length;
    for (const piece of [bytes.subarray(0, cut), bytes.subarray(cut)])
      if (piece.length > 0) this.#emitOutput(`stdout ${piece.length}`, piece);
  }

  #emitOutput(label: string, piece: Buffer | null): void {
    const world = this.#world;
    this.#lastOut = Math.max(this.#lastOut, world.now + this.#delay());
    world.at(this.#lastOut, this.#host, label, () => {
      if (!this.stdout.destroyed) this.stdout.push(piece);
    });
  }

  kill(signal: NodeJS.Signals): boolean {
    if (this.hasExited) return false;
    const isIgnored = signal === 'SIGTERM' && this.ignoresTerm;
    this.#world.after(this.#delay(), this.#world.outside, signal, () => {
      if (!isIgnored) this.exit(null, signal);
    });
    return true;
  }

  /** Ends the child. What it has written still arrives, before or after its exit is known. */
  exit(code: number | null, signal: NodeJS.Signals | null = null): void {
    if (this.hasExited) return;
    this.hasExited = true;
    this.exitedAt = this.#world.now;
    this.exitCode = code;
    const world = this.#world;
    world.kill(this.machine);
    world.note(`exit ${code} ${signal}`);
    this.onExit();
    this.#breakWrites();
    this.#emitOutput('stdout ends', null);
    world.after(this.#delay(), this.#host, 'exit', () => this.emit('exit', code, signal));
  }
}
