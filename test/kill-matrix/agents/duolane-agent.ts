import { join } from 'node:path';
import { cli } from '../../../src/adapters/cli-agent.ts';
import { cliToolName, cliTools } from '../cli-tools.ts';
import type { MatrixAgent } from '../matrix-agent.ts';

// Our own agent CLI, as built into dist, with the tools of the scene in this process.

const agent: MatrixAgent = {
  cli: true,
  toolName: cliToolName,
  build: (scene) =>
    cli({
      cwd: join(scene.own, 'work'),
      env: { ANTHROPIC_API_KEY: 'dummy', ANTHROPIC_BASE_URL: scene.url },
      inheritEnv: ['PATH', 'HOME', 'TMPDIR'],
      model: 'anthropic:scripted',
      tools: [],
      ...cliTools(scene),
    }),
};

export default agent;
