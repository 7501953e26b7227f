import { z } from 'zod';

/** What every agent here is given: the same tool, each in the words of its framework. */
export const description = 'The weather in a city, now';
export const schema: z.ZodObject<{ city: z.ZodString }> = z.object({ city: z.string() });
export const weather = async ({ city }: { readonly city: string }): Promise<string> =>
  `21 °C and clear in ${city}`;
