// `npx tsx scripts/record-terminal.ts`: the terminal of the README, from a real run of the command
// in a pseudo terminal, as an SVG that plays once. Only pauses are shortened.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build, ROOT } from './setup.mjs';

const COLUMNS = 124;
const ROWS = 32;
const CELL = { width: 7.8, height: 17 };
const PAD = 14;
const LONGEST_WAIT_S = 0.7;
const READ_S = 1.6; // pause before the next command is typed

const RUNS: readonly (readonly string[])[] = [
  ['demo', 'tickets'],
  ['demo', '--break', 'string-prompt'],
];

const ESC = String.fromCharCode(27);
/** Matches an escape sequence for style or cursor, the end of a line, or text. */
const TOKENS = new RegExp(
  `${ESC}\\[([\\d;]*)([A-Za-z])|(\\r?\\n|\\r)|([^${ESC}\\r\\n]+|${ESC})`,
  'g',
);

/** A piece of text with its position and the time when it was printed. */
interface Piece {
  readonly row: number;
  readonly column: number;
  readonly text: string;
  readonly style: string;
  readonly at: number;
}

/** Emulates what our command uses of a terminal: lines, wrapping, and the styles of its printer. */
class Screen {
  readonly pieces: Piece[] = [];
  #row = 0;
  #column = 0;
  readonly #styles = new Set<string>();

  get rows(): number {
    return this.#row + (this.#column > 0 ? 1 : 0);
  }

  print(output: string, at: number): void {
    for (const [, codes = '', command, control, text] of output.matchAll(TOKENS)) {
      if (command === 'm') for (const code of codes.split(';')) this.#style(code);
      else if (command === 'G') this.#column = Number(codes) - 1;
      else if (control !== undefined) {
        this.#column = 0;
        if (control.endsWith('\n')) this.#row++;
      } else if (text !== undefined) this.#write(Array.from(text), at);
    }
  }

  #write(chars: readonly string[], at: number): void {
    for (let from = 0; from < chars.length;) {
      const room = COLUMNS - this.#column;
      const part = chars.slice(from, from + room);
      const style = [...this.#styles].join(' ');
      this.pieces.push({ row: this.#row, column: this.#column, text: part.join(''), style, at });
      from += part.length;
      this.#column += part.length;
      if (this.#column < COLUMNS) continue;
      this.#column = 0;
      this.#row++;
    }
  }

  #style(code: string): void {
    const names: Readonly<Record<string, string>> = {
      1: 'bold',
      2: 'dim',
      31: 'red',
      32: 'green',
      33: 'yellow',
      36: 'cyan',
    };
    const name = names[code];
    if (name) this.#styles.add(name);
    else if (code === '22') for (const weight of ['bold', 'dim']) this.#styles.delete(weight);
    else if (code === '39')
      for (const colour of ['red', 'green', 'yellow', 'cyan']) this.#styles.delete(colour);
    else this.#styles.clear();
  }
}

async function record(screen: Screen, args: readonly string[], start: number): Promise<number> {
  let now = start;
  screen.print(`${ESC}[36m$${ESC}[39m duolane ${args.join(' ')}\r\n`, now);
  const home = await mkdtemp(join(tmpdir(), 'duolane-recording-'));
  const command = [process.execPath, join(ROOT, 'dist/cli/duolane.js'), ...args].join(' ');
  const child = spawn(
    'script',
    ['-qec', `stty cols ${COLUMNS} rows ${ROWS}; ${command}`, '/dev/null'],
    {
      cwd: home,
      env: { PATH: process.env['PATH'], HOME: home, TERM: 'xterm-256color' },
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  let last = performance.now();
  for await (const chunk of child.stdout.setEncoding('utf8')) {
    now += Math.min((performance.now() - last) / 1000, LONGEST_WAIT_S);
    last = performance.now();
    screen.print(chunk as string, now);
    const answer = /\[Y\/n\]/.test(chunk as string) ? 'y\r' : '\r';
    if (/\[Y\/n\]|Press Enter/.test(chunk as string))
      setTimeout(() => child.stdin.write(answer), 900);
  }
  if (child.exitCode === null) await once(child, 'exit');
  await rm(home, { recursive: true, force: true });
  if (child.exitCode !== 0)
    throw new Error(`duolane ${args.join(' ')} ended with ${child.exitCode}`);
  return now + READ_S;
}

const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

function svg({ pieces, rows }: Screen, seconds: number): string {
  const height = ROWS * CELL.height + 2 * PAD;
  const width = Math.round(COLUMNS * CELL.width + 2 * PAD);
  const texts = pieces
    .filter(({ text }) => text.trim() !== '')
    .map(({ row, column, text, style, at }) => {
      const position = `x="${(column * CELL.width).toFixed(1)}" y="${(row + 1) * CELL.height}"`;
      const length = `textLength="${(Array.from(text).length * CELL.width).toFixed(1)}"`;
      const look = style === '' ? '' : ` class="${style}"`;
      return `<text ${position} ${length}${look} style="animation-delay:${at.toFixed(2)}s">${escape(text)}</text>`;
    });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="13">
<style>
rect{fill:#15171c}text{fill:#e8e6e1;white-space:pre;visibility:hidden;animation:show 0s linear forwards}
.dim{fill:#a9afbc}.bold{font-weight:700}.red{fill:#ff938a}.green{fill:#74d491}.yellow{fill:#f2c14e}.cyan{fill:#8bb8ff}
#lines{animation:scroll ${seconds.toFixed(2)}s step-end forwards}
@keyframes show{to{visibility:visible}}
@keyframes scroll{${scrolling(pieces, rows, seconds)}}
@media (prefers-reduced-motion:reduce){text,#lines{animation-duration:0s!important;animation-delay:0s!important}}
</style>
<rect width="100%" height="100%" rx="8"/>
<svg x="${PAD}" y="${PAD - 4}" width="${width - 2 * PAD}" height="${ROWS * CELL.height + 6}"><g id="lines">
${texts.join('\n')}
</g></svg>
</svg>
`;
}

/** The steps of scrolling: the screen moves up when a row below it is written. */
function scrolling(pieces: readonly Piece[], rows: number, seconds: number): string {
  const frames = ['0%{transform:none}'];
  let bottom = ROWS - 1;
  for (const { row, at } of pieces) {
    if (row <= bottom) continue;
    bottom = row;
    const percent = ((at / seconds) * 100).toFixed(2);
    frames.push(`${percent}%{transform:translateY(${-(row - ROWS + 1) * CELL.height}px)}`);
  }
  return [
    ...frames,
    `100%{transform:translateY(${-Math.max(0, rows - ROWS) * CELL.height}px)}`,
  ].join('');
}

const { code, output } = await build();
if (code !== 0) throw new Error(output);
const screen = new Screen();
let seconds = 0.4;
for (const args of RUNS) seconds = await record(screen, args, seconds);
const file = join('docs', 'images', 'terminal.svg');
await writeFile(join(ROOT, file), svg(screen, seconds));
console.log(`${file}: ${screen.rows} rows, ${seconds.toFixed(1)} s`);
