import { chmod, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DuolaneError } from '../../../errors.ts';
import { EXIT, type Command } from '../../command.ts';
import { template } from './template.ts';

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url)).replace(/[\\/]$/, '');

export const newAgent: Command = {
  usage: '<folder> [options]',
  required: ['<folder>'],
  expected: 'a new folder, e.g. duolane new my-agent',
  most: 1,
  options: { json: { text: 'print the folder and its files as JSON' } },
  details: [
    'Creates a small agent with one tool and one test. npm test passes in it, offline: the package\n' +
      'that runs this command is linked there, so nothing has to be installed.',
  ],
  examples: ['duolane new my-agent && cd my-agent && npm test'],
  async run({ args, flags, terminal }) {
    const [given = ''] = args;
    const folder = resolve(given);
    const name = basename(folder).toLowerCase();
    if (!/^[a-z0-9][\w.-]*$/.test(name)) {
      throw new DuolaneError(
        'invalid',
        `invalid package name "${name}": expected letters, digits, "-", "_" or ".", e.g. my-agent`,
      );
    }
    await mustBeEmpty(folder, given);
    const files = template(name, ROOT);
    await mkdir(join(folder, 'node_modules'), { recursive: true });
    for (const [file, text] of Object.entries(files)) await writeFile(join(folder, file), text);
    await symlink(ROOT, join(folder, 'node_modules', 'duolane'), 'junction');
    await linkCommand(folder);
    const { out } = terminal;
    if (flags['json']) out.line(JSON.stringify({ folder, files: Object.keys(files) }));
    else {
      out.line(`${out.style('bold', given)} has an agent with one tool and one test.\n`);
      out.line(`  cd ${given}`);
      out.line('  npm test');
      out.line('  npx duolane chat agent.js');
    }
    return EXIT.ok;
  },
};

async function mustBeEmpty(folder: string, given: string): Promise<void> {
  const there = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw new DuolaneError('invalid', `cannot use ${given} (${error.code}): expected a folder`, {
      cause: error,
    });
  });
  if (there.length > 0) {
    throw new DuolaneError('invalid', `${given} is not empty; choose a new folder`);
  }
}

/**
 * Links `npx duolane` in the folder to this command. If links need rights, `npm install` does it.
 */
async function linkCommand(folder: string): Promise<void> {
  const bin = join(folder, 'node_modules', '.bin');
  await mkdir(bin);
  const command = join(ROOT, 'dist', 'cli', 'duolane.js');
  try {
    await symlink(command, join(bin, 'duolane'));
    await chmod(command, 0o755); // as npm does when it installs
  } catch {
    // The link is optional: the project also runs without it.
    return;
  }
}
