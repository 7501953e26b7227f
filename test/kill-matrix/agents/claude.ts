import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { cli } from '../../../src/adapters/cli-agent.ts';
import { asObject, type JsonObject } from '../../../src/json.ts';
import { findRealCli } from '../../support/real-cli.ts';
import { cliToolName, cliTools } from '../cli-tools.ts';
import type { MatrixAgent } from '../matrix-agent.ts';

// The vendor's CLI of the agent SDK, with the tools of the scene in this process.

const { command, missing } = await findRealCli('claude-cli-2.1');

/**
 * Masks its ids, its folders and the time, and two known differences of a run that continues after
 * the result of a tool (docs/guides/durability.md): the text "Continue.", and that the mark for the
 * prompt cache is on it.
 */
function mask(body: JsonObject): unknown {
  const { metadata: _metadata, ...rest } = body;
  return asObject(
    JSON.parse(
      JSON.stringify(rest)
        .replace(/\/[^"\s\\]*\/((first|second)\/(home|tmp)|work)\b/g, '<folder>')
        .replaceAll(/,"cache_control":\{[^}]*\}/g, '')
        .replaceAll(',{"type":"text","text":"Continue."}', '')
        .replace(/cch=[0-9a-f]+/g, 'cch=<hash>')
        .replace(/cc_version=[^;]+/g, 'cc_version=<version>'),
    ),
  );
}

function sharedFolder(own: string): string {
  const folder = join(own, '..', 'work');
  mkdirSync(folder, { recursive: true });
  return folder;
}

const agent: MatrixAgent = {
  ...(missing !== undefined && { missing }),
  cli: true,
  toolName: cliToolName,
  mask,
  build: (scene) =>
    cli({
      pathToClaudeCodeExecutable: command,
      // One path on all replicas: the model gets to know if it changes.
      cwd: sharedFolder(scene.own),
      env: {
        ANTHROPIC_BASE_URL: scene.url,
        ANTHROPIC_API_KEY: 'dummy-key-for-loopback',
        CLAUDE_CONFIG_DIR: join(scene.own, 'home', 'config'),
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        DISABLE_TELEMETRY: '1',
        DISABLE_ERROR_REPORTING: '1',
        DISABLE_AUTOUPDATER: '1',
        ENABLE_TOOL_SEARCH: 'false',
      },
      inheritEnv: ['PATH', 'HOME', 'TMPDIR'],
      model: 'scripted',
      settingSources: [],
      tools: [],
      ...cliTools(scene),
    }),
};

export default agent;
