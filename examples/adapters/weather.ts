import { z } from 'zod';

/** The tool of every agent here; each framework has its own way to declare it. */
export const description = 'Returns the current weather in a city';
export const schema: z.ZodObject<{ city: z.ZodString }> = z.object({ city: z.string() });
export const weather = async ({ city }: { readonly city: string }): Promise<string> =>
  `21 °C and clear in ${city}`;
