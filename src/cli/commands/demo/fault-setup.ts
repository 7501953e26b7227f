import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Frame } from '../../../event/types.ts';
import type { SessionOptions } from '../../../host/index.ts';
import { createSdkMcpServer, tool } from '../../../host/index.ts';
import type { JsonObject } from '../../../json.ts';
import { sleep } from '../../../stream/abort.ts';
import { disposeOnce } from '../../../stream/dispose-once.ts';
import { checkPipe, type Finding } from '../../../trace/index.ts';

const AGENT = fileURLToPath(
  new URL(
    import.meta.url.endsWith('.ts')
      ? '../../../../dist/agent-cli/main.js'
      : '../../../agent-cli/main.js',
    import.meta.url,
  ),
);

/** Options of `FaultSetup.open()`. */
export interface FaultSetupOptions {
  /** The messages of the scripted model, in order. */
  readonly script: readonly JsonObject[];
  /** How long the tool takes. */
  readonly toolMs?: number;
  /** Called when the tool is called, returns, or is aborted. */
  readonly onTool?: (what: 'called' | 'answered' | 'aborted') => void;
}

/**
 * The setup that both programs of a fault share: the open agent CLI with a scripted model, in a
 * temporary folder, and one tool, `search`, in this process.
 */
export class FaultSetup implements AsyncDisposable {
  readonly command: string = process.execPath;
  readonly args: readonly string[];
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly #options: FaultSetupOptions;

  static async open(options: FaultSetupOptions): Promise<FaultSetup> {
    const folder = await mkdtemp(join(tmpdir(), 'duolane-break-'));
    await writeFile(join(folder, 'script.json'), JSON.stringify(options.script));
    return new FaultSetup(folder, options);
  }

  private constructor(folder: string, options: FaultSetupOptions) {
    this.folder = folder;
    this.#options = options;
    this.args = [
      AGENT,
      '--output-format=stream-json',
      '--input-format=stream-json',
      '--verbose',
      '--include-partial-messages',
      '--allowedTools=mcp__guide__search',
      `--model=script:${join(folder, 'script.json')}`,
    ];
    this.env = { PATH: process.env['PATH'] ?? '', HOME: folder, CLAUDE_CONFIG_DIR: folder };
  }

  /** The tool for a naive host. */
  async search(): Promise<string> {
    this.#options.onTool?.('called');
    await sleep(this.#options.toolMs ?? 0);
    return 'drink, rest, see a doctor after three days';
  }

  /** Options for our host, with the same tool. */
  options(): SessionOptions {
    const { onTool, toolMs = 0 } = this.#options;
    const search = tool('search', 'Search the guide', {}, async (_args, { signal }) => {
      onTool?.('called');
      try {
        await sleep(toolMs, signal);
      } catch (error) {
        onTool?.('aborted');
        throw error;
      }
      onTool?.('answered');
      return 'drink, rest, see a doctor after three days';
    });
    return {
      model: `script:${join(this.folder, 'script.json')}`,
      cwd: this.folder,
      env: this.env,
      tools: [],
      includePartialMessages: true,
      allowedTools: ['mcp__guide__search'],
      mcpServers: { guide: createSdkMcpServer({ name: 'guide', tools: [search] }) },
    };
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A script with one tool call, and a final message with its result. */
export const ONE_CALL: readonly JsonObject[] = [
  { text: 'Let me look.', tools: [{ name: 'mcp__guide__search', input: { query: 'fever' } }] },
  { text: 'The guide says: {{last}}' },
];

/** The findings of the doctor's rules for these frames. */
export function judge(frames: readonly Frame[]): readonly Finding[] {
  const checker = checkPipe();
  const found = frames.flatMap((frame, at) => [...checker.see(frame, at + 1)]);
  return [...found, ...checker.end()];
}
