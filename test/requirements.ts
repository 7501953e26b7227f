/** An id of a row of the mission. The list itself follows. */
export type RequirementId = `S${number}`;
