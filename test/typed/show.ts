/** Accepts what a program would print. */
export function show(...things: unknown[]): void {
  process.stdout.write(`${things.join(' ')}\n`);
}
