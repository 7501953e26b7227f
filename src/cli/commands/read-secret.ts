import { open } from 'node:fs/promises';
import { DuolaneError, errorMessage } from '../../errors.ts';
import { textFlag, type CommandFlags } from '../command.ts';

/** The limit for the file of a secret: a larger one is the wrong file. */
const MAX_SECRET_BYTES = 64 * 1024;

/**
 * Reads a setting that holds a secret: the flag, or else the environment variable. Removes the
 * variable, so that no agent, tool or process that this one starts inherits it.
 */
export function secretSetting(
  flags: CommandFlags,
  name: string,
  variable: string,
): { readonly value: string; readonly from: string } | undefined {
  const variableValue = process.env[variable];
  delete process.env[variable];
  const flag = textFlag(flags, name);
  if (flag !== undefined) return { value: flag, from: `--${name}` };
  return variableValue === undefined ? undefined : { value: variableValue, from: variable };
}

/** The value itself, or with `@<file>` the content of the file without its final line break. */
export async function readSecret(value: string, from: string): Promise<string> {
  if (!value.startsWith('@')) return value;
  const path = value.slice(1);
  let text: string;
  try {
    await using file = await open(path);
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(MAX_SECRET_BYTES + 1) });
    if (bytesRead > MAX_SECRET_BYTES)
      throw new DuolaneError('invalid', `expected at most ${MAX_SECRET_BYTES} bytes`);
    text = buffer.toString('utf8', 0, bytesRead).replace(/\r?\n$/, '');
  } catch (cause) {
    throw new DuolaneError(
      'invalid',
      `cannot read the secret of ${from} from "${path}": ${errorMessage(cause)}`,
      {
        cause,
      },
    );
  }
  if (text === '')
    throw new DuolaneError('invalid', `the file "${path}" of ${from} is empty: expected a secret`);
  return text;
}
