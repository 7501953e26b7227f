import type { AgentTool } from '../types.ts';
import type { Workspace } from './workspace.ts';

export const BUILTIN_NAMES = ['Read', 'Write', 'Edit', 'Glob', 'Grep', 'Bash'] as const;

/** The built-in tools that `--tools` names; `default` is all of them. Loaded only when one is asked for. */
export async function builtinTools(
  names: readonly string[],
  place: Workspace,
): Promise<AgentTool[]> {
  const wanted = new Set(names.includes('default') ? BUILTIN_NAMES : names);
  if (!BUILTIN_NAMES.some((name) => wanted.has(name))) return [];
  const [files, search] = await Promise.all([import('./files.ts'), import('./search.ts')]);
  const tools = [
    files.readTool(place),
    files.writeTool(place),
    files.editTool(place),
    search.globTool(place),
    search.grepTool(place),
    ...(wanted.has('Bash') ? [(await import('./bash.ts')).bashTool(place)] : []),
  ];
  return tools.filter(({ spec }) => wanted.has(spec.name));
}
