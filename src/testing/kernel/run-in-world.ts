import { enter, replaceGlobals } from './virtual-globals.ts';
import { World } from './world.ts';

/** The end of the simulation before: two in one process would share their clocks. */
let before: Promise<unknown> = Promise.resolve();

/**
 * Runs work in a new world, whose time, chance and unhandled rejections it has for itself, and
 * returns the world. The clocks of the process are restored afterwards.
 */
export function runInWorld(
  seed: number,
  options: { readonly trace: boolean },
  work: (world: World) => Promise<void>,
): Promise<World> {
  const run = before.then(() => play(new World(seed, options), work));
  before = run.catch(() => {}); // its caller gets the error
  return run;
}

async function play(world: World, work: (world: World) => Promise<void>): Promise<World> {
  const listeners = process.listeners('unhandledRejection');
  process.removeAllListeners('unhandledRejection');
  process.on('unhandledRejection', (reason: unknown) => {
    const text = reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
    world.broken('no rejection is unhandled', text);
  });
  const restore = replaceGlobals({ refusesFetch: true });
  enter(world);
  try {
    await work(world);
  } finally {
    enter(undefined);
    restore();
    process.removeAllListeners('unhandledRejection');
    for (const listener of listeners) process.on('unhandledRejection', listener);
  }
  return world;
}
